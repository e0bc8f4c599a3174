"""The one place that turns what botocore raises into the exceptions of `fairshare.model`.

Every message says what was being done and keeps AWS's own words; every hint says what to do next. Codes are compared,
not texts, wherever AWS gives a code: https://docs.aws.amazon.com/batch/latest/APIReference/CommonErrors.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from fairshare.model import CredentialsError, FairshareError, NotFoundError, ServiceError, ThrottledError

_REFUSED_KEY: Final = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "InvalidToken",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnrecognizedClientException",
    }
)
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "NotAuthorized", "UnauthorizedOperation"})
_THROTTLED: Final = frozenset(
    {
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_OUT_OF_QUOTA: Final = frozenset({"LimitExceededException", "ServiceQuotaExceededException"})
_MISSING: Final = frozenset(
    {"404", "NoSuchBucket", "NoSuchKey", "NotFound", "ResourceNotFound", "ResourceNotFoundException"}
)
_SAYS_MISSING_IN_WORDS: Final = frozenset({"ClientException", "ValidationException"})
"""What Batch and SageMaker answer to a name they do not know, as to anything else that is wrong with a request."""
_MISSING_TEXT: Final = re.compile(r"not found|does(?: not|n't) exist|no such", re.IGNORECASE)

_NO_LOGIN: Final = (
    "CredentialRetrievalError",
    "LoginError",
    "MetadataRetrievalError",
    "NoAuthTokenError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "SSOError",
    "TokenRetrievalError",
    "UnauthorizedSSOTokenError",
)
"""Names in `botocore.exceptions` of what goes wrong before a request can be signed, SSO and `aws login` included."""

_NO_ANSWER: Final = ("ConnectionError", "HTTPClientError", "IncompleteReadError")


@dataclass(frozen=True)
class Caller:
    """On whose behalf and to which address a call goes: what a hint must name."""

    profile: str | None = None
    endpoint_url: str | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether the call goes to this machine."""
        return self.endpoint_url is not None and is_loopback_url(self.endpoint_url)

    @property
    def login_hint(self) -> str:
        """How to get credentials again."""
        if self.is_loopback:
            return (
                "The local AWS makes a new key at each start: use `--local`, which reads it, or start it again with "
                "`fairshare local start`."
            )
        if self.profile is not None:
            return (
                f"Log in for profile {self.profile} (`aws sso login --profile {self.profile}`, or renew its keys), "
                "then run the same command again."
            )
        return (
            "Log in (`aws sso login`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), or name a profile with "
            "`--profile`, then run the same command again."
        )


def is_loopback_url(url: str) -> bool:
    """Whether a URL leads to this machine: ``localhost``, ``127.0.0.0/8`` or ``::1``."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@contextmanager
def translated(doing: str, caller: Caller, *, keep_answers: bool = False) -> Iterator[None]:
    """Translate what botocore raises inside the block. Other exceptions pass.

    Args:
        doing: what the block does, to follow "Cannot": ``list the jobs of queue gpu``.
        caller: named in the hints.
        keep_answers: leave every answer of AWS but refused credentials a `ServiceError` with its code, "not found" and
            throttling (always as status 429) included, because the caller decides what it means.

    Raises:
        FairshareError: see `translate`.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except ResponseParserError as error:
        raise cut_off(doing) from error
    except (BotoCoreError, ClientError) as error:
        raise translate(error, doing=doing, caller=caller, keep_answers=keep_answers) from error


def translate(error: Exception, *, doing: str, caller: Caller, keep_answers: bool = False) -> FairshareError:
    """Return the exception that a user is told.

    An answer of AWS becomes `CredentialsError`, `ThrottledError`, `NotFoundError` or `ServiceError`. Without an answer:
    `CredentialsError` when the request could not be signed, `ServiceError` without status when nobody answered (it is
    transient), else a plain `FairshareError`.
    """
    import botocore.exceptions as boto

    if isinstance(error, boto.ClientError):
        return _from_answer(error.response, doing=doing, caller=caller, keep_answers=keep_answers)
    message = f"Cannot {doing}: {error}"
    if isinstance(error, tuple(getattr(boto, name) for name in _NO_LOGIN)):
        return CredentialsError(message, hint=caller.login_hint)
    if isinstance(error, tuple(getattr(boto, name) for name in _NO_ANSWER)):
        return ServiceError(message, aws_code=type(error).__name__, hint=_no_answer_hint(error, caller))
    return FairshareError(message, hint="This request could not be sent. Check the region and the names in it.")


def cut_off(doing: str) -> ServiceError:
    """Return what an answer is that ended in the middle: as good as none, whatever was done (case C22)."""
    return ServiceError(f"Cannot {doing}: the answer was cut off", hint="This may pass: run the same command again.")


def _from_answer(answer: Any, *, doing: str, caller: Caller, keep_answers: bool) -> FairshareError:
    code = str(answer.get("Error", {}).get("Code", ""))
    text = str(answer.get("Error", {}).get("Message", "")) or "no text"
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    message = f"Cannot {doing}: {text}" + (f" ({code})" if code else "")
    if code in _REFUSED_KEY or status == 401 or (status == 403 and caller.is_loopback):
        return CredentialsError(message, hint=caller.login_hint)
    if code in _DENIED or status == 403:
        who = "these credentials" if caller.profile is None else f"profile {caller.profile}"
        hint = f"Ask for this permission for {who}, or use others with `--profile`."
        return CredentialsError(message, hint=hint)
    if code in _THROTTLED:
        status = 429
    if not keep_answers and status == 429:
        hint = "AWS still refused after several tries. Wait a minute, then run the same command again."
        return ThrottledError(message, hint=hint)
    if not keep_answers and code in _OUT_OF_QUOTA:
        return ThrottledError(message, hint="Ask AWS for a higher quota, or end or delete what is no longer needed.")
    is_missing = code in _MISSING or (code in _SAYS_MISSING_IN_WORDS and _MISSING_TEXT.search(text))
    if is_missing and not keep_answers:
        return NotFoundError(message, hint="Check the name, the region and the account.")
    return ServiceError(message, aws_code=code, http_status=status, hint=_answer_hint(status))


def _answer_hint(status: int | None) -> str:
    if status is not None and (status >= 500 or status == 429):
        return "This may pass: run the same command again."
    return "AWS refused the request as it is: correct what its text names, then run the same command again."


def _no_answer_hint(error: Exception, caller: Caller) -> str:
    url = str(getattr(error, "kwargs", {}).get("endpoint_url", caller.endpoint_url or ""))
    if caller.is_loopback or (url and is_loopback_url(url)):
        return "Nothing answers at this address: is `fairshare local start` running?"
    return "Check the network, the region and any proxy, then run the same command again."
