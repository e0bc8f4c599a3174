"""Clients of AWS: one region, one account, one address for every service (case C18).

Two worlds never mix. A session made from the ready file of the local AWS carries that file's key and nothing else: no
profile, environment variable, configuration file or instance role is looked at, no proxy is used, and the address must
be this machine. A session without explicit keys takes credentials as every AWS tool does.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from fairshare.aws.errors import Caller, is_loopback_url, translated
from fairshare.model import CredentialsError, NotFoundError, UsageError, partition_of
from fairshare.version import __version__

_ATTEMPTS: Final = 5
_LOOPBACK_ATTEMPTS: Final = 2
"""On this machine a refused connection will not heal by waiting."""
_CONNECT_SECONDS: Final = 10
_READ_SECONDS: Final = 60
_PROBE_SECONDS: Final = 2.0


class AwsSession:
    """Makes clients, thread-safe and cached.

    Args:
        region: of every client.
        profile: of the AWS configuration files; None = the usual search.
        endpoint_url: address of every service, e.g. of the local AWS; None = AWS.
        access_key_id: with ``secret_access_key``: use this key and look at no other source. Only for an address on this
            machine.
        secret_access_key: see ``access_key_id``.
        expected_account: account that the credentials must belong to, checked before the first call of any client. Not
            checked against an address on this machine, so that one ``fairshare.yaml`` works in both places.

    Raises:
        UsageError: explicit keys without an address on this machine.
        CredentialsError: the profile does not exist.
    """

    def __init__(
        self,
        *,
        region: str,
        profile: str | None = None,
        endpoint_url: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        expected_account: str | None = None,
    ) -> None:
        self.region = region
        self.profile = profile
        self.endpoint_url = endpoint_url
        self._keys = None if access_key_id is None else (access_key_id, secret_access_key)
        self._expected_account = None if self.is_loopback else expected_account
        self._clients: dict[tuple[str, int | None], Any] = {}
        self._lock = threading.RLock()
        if self._keys is not None and not self.is_loopback:
            raise UsageError(
                f"The key of a local AWS cannot be used for {endpoint_url or 'AWS'}",
                hint="Give the address of `fairshare local start`, or let AWS credentials be found in the usual way.",
            )

    @classmethod
    def from_ready_file(cls, path: Path, region: str) -> Self:
        """Return a session for the local AWS that wrote this ready file.

        The file is JSON with ``endpoint_url``, ``access_key_id`` and ``secret_access_key``.

        Raises:
            NotFoundError: there is no such file, it cannot be read, or nothing answers at its address any more.
        """
        hint = "Start it with `fairshare local start`."
        try:
            ready = json.loads(path.read_text(encoding="utf-8"))
            endpoint_url = str(ready["endpoint_url"])
            session = cls(
                region=region,
                endpoint_url=endpoint_url,
                access_key_id=str(ready["access_key_id"]),
                secret_access_key=str(ready["secret_access_key"]),
            )
        except FileNotFoundError:
            raise NotFoundError(f"No local AWS is running: there is no {path}", hint=hint) from None
        except (OSError, ValueError, KeyError, TypeError, UsageError) as error:
            raise NotFoundError(f"{path} is not the ready file of a local AWS: {error}", hint=hint) from None
        if not _answers(endpoint_url):
            raise NotFoundError(
                f"The local AWS of {path} has ended: nothing answers at {endpoint_url}",
                hint="Start it again with `fairshare local start`.",
            )
        return session

    @property
    def caller(self) -> Caller:
        """For `fairshare.aws.errors.translated`: whom a hint must name."""
        return Caller(self.profile, self.endpoint_url)

    @property
    def is_loopback(self) -> bool:
        """Whether calls go to this machine."""
        return self.endpoint_url is not None and is_loopback_url(self.endpoint_url)

    @property
    def partition(self) -> str:
        """ARN partition of the region: ``aws``, ``aws-cn`` or ``aws-us-gov`` (case C07)."""
        return partition_of(self.region)

    @property
    def default_bucket(self) -> str:
        """Name of the bucket that SageMaker uses by default: ``sagemaker-<region>-<account>``."""
        return f"sagemaker-{self.region}-{self.account_id}"

    @cached_property
    def account_id(self) -> str:
        """Account of the credentials, asked of STS once.

        Raises:
            CredentialsError: there are none, they are refused, or they belong to another account than expected.
        """
        with translated("ask AWS which account the credentials belong to", self.caller):
            account = str(self._client("sts", None).get_caller_identity()["Account"])
        if self._expected_account is not None and account != self._expected_account:
            who = "The credentials belong" if self.profile is None else f"Profile {self.profile} belongs"
            raise CredentialsError(
                f"{who} to account {account}, but fairshare.yaml says account {self._expected_account}",
                hint="Choose the right profile with `--profile`, or correct `account` in fairshare.yaml.",
            )
        return account

    @cached_property
    def boto_session(self) -> Any:
        """The boto3 session behind all clients, for the SageMaker SDK. It holds region and credentials, no address."""
        import boto3

        with self._lock, translated("use the AWS configuration", self.caller):
            if self._keys is None:
                return boto3.session.Session(region_name=self.region, profile_name=self.profile)
            access_key_id, secret_access_key = self._keys
            return boto3.session.Session(
                aws_access_key_id=access_key_id,
                aws_secret_access_key=secret_access_key,
                region_name=self.region,
                botocore_session=_isolated_botocore_session(),
            )

    def environment(self) -> dict[str, str]:
        """Return the variables that bring any other AWS client to the same local AWS; empty for a session on AWS."""
        if self._keys is None or self.endpoint_url is None:
            return {}
        access_key_id, secret_access_key = self._keys
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": access_key_id,
            "AWS_SECRET_ACCESS_KEY": secret_access_key or "",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }

    def client(self, service: str, *, retries: int | None = None) -> Any:
        """Return the client of a service, e.g. ``batch``.

        Args:
            service: name in boto3.
            retries: how often botocore may try again; None = a few times, 0 = never, for callers that retry themselves.

        Raises:
            CredentialsError: the credentials belong to another account than expected.
        """
        if self._expected_account is not None:
            _ = self.account_id
        return self._client(service, retries)

    def _client(self, service: str, retries: int | None) -> Any:
        with self._lock:
            if (service, retries) not in self._clients:
                with translated(f"prepare calls to {service}", self.caller):
                    self._clients[service, retries] = self.boto_session.client(
                        service, endpoint_url=self.endpoint_url, config=self._config(retries)
                    )
            return self._clients[service, retries]

    def _config(self, retries: int | None) -> Any:
        from botocore.config import Config

        usual = _LOOPBACK_ATTEMPTS if self.is_loopback else _ATTEMPTS
        return Config(
            retries={"mode": "standard", "total_max_attempts": usual if retries is None else retries + 1},
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            user_agent_extra=f"fairshare/{__version__}",
            proxies={} if self.is_loopback else None,
            s3=None if self.endpoint_url is None else {"addressing_style": "path"},
        )


def _isolated_botocore_session() -> Any:
    """Return a botocore session that reads no profile and no configuration file of the user."""
    import botocore.session

    return botocore.session.Session(
        session_vars={
            "profile": (None, None, None, None),
            "config_file": (None, None, os.devnull, None),
            "credentials_file": (None, None, os.devnull, None),
        }
    )


def _answers(endpoint_url: str) -> bool:
    """Whether somebody listens at a loopback address."""
    address = urlsplit(endpoint_url)
    try:
        socket.create_connection((address.hostname, address.port or 80), timeout=_PROBE_SECONDS).close()
    except OSError:
        return False
    return True
