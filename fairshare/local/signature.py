"""Who signed a request: the access keys a request names, read from every form that AWS's clients use.

Forms: the ``Authorization`` header of signature version 4 (and 4a, and 2), and the query of a presigned URL
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

_HEADER_SCOPE: Final = re.compile(r"Credential=([^,\s]+)")
_HEADER_V2: Final = re.compile(r"AWS ([^:\s]+):")


@dataclass(frozen=True)
class Credential:
    """One credential of a request. ``service`` is its signing name (``batch``, ``monitoring``); "" when it has none."""

    access_key_id: str
    service: str = ""


def credentials_of(authorization: str, query: str) -> list[Credential]:
    """Return every credential that a request names; none = it is not signed.

    Args:
        authorization: the header's value, or "".
        query: the query string, still encoded.
    """
    fields = parse_qs(query, keep_blank_values=True)
    scopes = _HEADER_SCOPE.findall(authorization) + fields.get("X-Amz-Credential", [])
    version_2 = _HEADER_V2.findall(authorization) + fields.get("AWSAccessKeyId", [])
    return [_from_scope(scope) for scope in scopes] + [Credential(key) for key in version_2]


def _from_scope(scope: str) -> Credential:
    """Read ``<key>/<date>/<region>/<service>/aws4_request``; version 4a leaves the region out."""
    key, *rest = scope.split("/")
    return Credential(key, rest[-2] if len(rest) >= 2 else "")
