"""Lines of a file that must survive a crash: numbered JSON objects, each with a checksum of itself.

Used by the journal of a run and by the local AWS's log of calls. A line is one JSON object: ``seq`` and ``type`` first,
``crc`` (of all that stands before it) last. A last line without its newline was torn by a crash and is no damage; any
other line that `decode` refuses is.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

_CRC: Final = re.compile(rb',"crc":"([0-9a-f]{8})"\}$')


def encode(seq: int, kind: str, fields: Mapping[str, Any]) -> bytes:
    """Return a record as a line, with its newline."""
    record = {"seq": seq, "type": kind, **fields}
    body = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def decode(line: bytes) -> dict[str, Any]:
    """Return the record of a line without its newline; ValueError tells what is wrong with it."""
    match = _CRC.search(line)
    if match is None:
        raise ValueError("it is not a record of a journal")
    if zlib.crc32(line[: match.start()]) != int(match[1], 16):
        raise ValueError("its checksum is wrong")
    record: dict[str, Any] = json.loads(line)
    return record


def check_seq(record: Mapping[str, Any], expected: int) -> None:
    """Check that a record stands where it belongs; ValueError when not."""
    if record["seq"] != expected:
        raise ValueError(f"seq is {record['seq']}, expected {expected}")
