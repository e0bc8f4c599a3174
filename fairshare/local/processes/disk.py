"""How much a job's directories hold on the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_BLOCK_BYTES: Final = 512  # of st_blocks, whatever the file system's own are
_REST_FOR_WORK: Final = 100


class DiskMeter:
    """The disk space of directories, added up file by file.

    Directories with very many files are looked at less often: adding up takes at most a hundredth of the time, and in
    between the last figure stands.

    Args:
        directories: none inside another one.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories
        self._bytes = 0
        self._rests_until = 0.0

    def used_bytes(self) -> int:
        """Return what the directories hold, hard links counted once for each name; symbolic links are not followed."""
        begin = time.monotonic()
        if begin >= self._rests_until:
            self._bytes = sum(_size_of(os.fspath(directory)) for directory in self._directories)
            end = time.monotonic()
            self._rests_until = end + _REST_FOR_WORK * (end - begin)
        return self._bytes


def _size_of(directory: str) -> int:
    """Files come and go while we look; what has gone counts nothing."""
    size, waiting = 0, [directory]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
        except OSError:
            continue
    return size
