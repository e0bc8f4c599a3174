"""The address of the local AWS, and clients that can reach nothing else.

Imports boto3: loaded only where the process launcher runs.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import boto3
import botocore.session
from botocore.config import Config

_NOT_FROM_HERE = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}
"""Session variables whose environment variables and files (the user's AWS account) are not looked at."""


class LocalEndpoint:
    """Where the local AWS listens, with the access key it accepts.

    Args:
        url: e.g. ``http://127.0.0.1:5000``.
        access_key_id: the key made at start.
        secret_access_key: its secret.
    """

    def __init__(self, url: str, access_key_id: str, secret_access_key: str) -> None:
        self.url = url
        self.access_key_id = access_key_id
        self.secret_access_key = secret_access_key
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def client(self, service: str, region: str) -> Any:
        """Return the boto3 client of a service; one is shared by all threads.

        It ignores the user's profile, files and proxies, so it neither fails on them nor leaves this machine.
        """
        with self._lock:  # making a client is not thread-safe, using one is
            if (service, region) not in self._clients:
                self._clients[service, region] = self._make(service, region)
            return self._clients[service, region]

    def close(self) -> None:
        """Close the connections of every client."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _make(self, service: str, region: str) -> Any:
        session = boto3.session.Session(
            botocore_session=botocore.session.Session(session_vars=_NOT_FROM_HERE),
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            region_name=region,
        )
        config = Config(
            proxies={},
            retries={"mode": "standard", "max_attempts": 3},
            connect_timeout=5,
            read_timeout=30,
            max_pool_connections=64,
            use_fips_endpoint=False,
            use_dualstack_endpoint=False,
        )
        return session.client(service, endpoint_url=self.url, config=config)
