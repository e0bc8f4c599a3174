from __future__ import annotations

from collections.abc import Callable

import botocore.exceptions as boto
import pytest

from fairshare.aws.errors import Caller, is_loopback_url, translate, translated
from fairshare.model import CredentialsError, FairshareError, NotFoundError, ServiceError, ThrottledError

ML = Caller(profile="ml")
LOCAL = Caller(endpoint_url="http://127.0.0.1:5000")
Refusal = Callable[..., boto.ClientError]


def told(error: Exception, caller: Caller = ML, *, keep_answers: bool = False) -> FairshareError:
    return translate(error, doing="list the jobs of queue gpu", caller=caller, keep_answers=keep_answers)


def test_a_refusal_keeps_aws_words_and_code(refusal: Refusal) -> None:
    error = told(refusal("shareIdentifier must be specified."))

    assert isinstance(error, ServiceError)
    assert error.message == "Cannot list the jobs of queue gpu: shareIdentifier must be specified. (ClientException)"
    assert error.hint == (
        "AWS refused the request as it is: correct what its text names, then run the same command again."
    )
    assert (error.aws_code, error.http_status, error.is_transient) == ("ClientException", 400, False)


@pytest.mark.parametrize("status", [500, 503])
def test_an_error_of_aws_is_transient(refusal: Refusal, status: int) -> None:
    error = told(refusal("Failed to create shareIdentifier default", "ServerException", status))

    assert isinstance(error, ServiceError)
    assert error.is_transient
    assert error.hint == "This may pass: run the same command again."


@pytest.mark.parametrize(
    ("code", "status"),
    [("TooManyRequestsException", 429), ("ThrottlingException", 400), ("SlowDown", 503), ("Whatever", 429)],
)
def test_throttling_is_its_own_error_unless_the_caller_retries(refusal: Refusal, code: str, status: int) -> None:
    error = told(refusal("Too Many Requests", code, status))
    assert isinstance(error, ThrottledError)
    assert error.message == f"Cannot list the jobs of queue gpu: Too Many Requests ({code})"
    assert error.hint is not None
    assert "Wait a minute" in error.hint

    kept = told(refusal("Too Many Requests", code, status), keep_answers=True)
    assert isinstance(kept, ServiceError)
    assert (kept.aws_code, kept.http_status, kept.is_transient) == (code, 429, True)


def test_a_quota_is_reached_until_somebody_acts(refusal: Refusal) -> None:
    error = told(refusal("Limit of 50 reached", "ServiceQuotaExceededException", 402))

    assert isinstance(error, ThrottledError)
    assert error.hint == "Ask AWS for a higher quota, or end or delete what is no longer needed."
    kept = told(refusal("Limit of 50 reached", "ServiceQuotaExceededException", 402), keep_answers=True)
    assert isinstance(kept, ServiceError)
    assert not kept.is_transient


@pytest.mark.parametrize(
    ("text", "code", "status"),
    [
        ("JobQueue gpu not found.", "ClientException", 400),
        ("The quota share does not exist", "ClientException", 400),
        ("Not Found", "404", 404),
        ("The specified key does not exist.", "NoSuchKey", 404),
        ("The specified log group does not exist.", "ResourceNotFoundException", 400),
    ],
)
def test_what_is_not_there_is_not_found(refusal: Refusal, text: str, code: str, status: int) -> None:
    error = told(refusal(text, code, status))

    assert isinstance(error, NotFoundError)
    assert text in error.message
    assert error.hint == "Check the name, the region and the account."
    assert isinstance(told(refusal(text, code, status), keep_answers=True), ServiceError)


@pytest.mark.parametrize(
    "code", ["ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidToken"]
)
def test_expired_or_unknown_credentials_say_how_to_log_in(refusal: Refusal, code: str) -> None:
    error = told(refusal("The security token included in the request is expired", code, 400), keep_answers=True)

    assert isinstance(error, CredentialsError)
    assert error.hint == (
        "Log in for profile ml (`aws sso login --profile ml`, or renew its keys), then run the same command again."
    )
    unnamed = told(refusal("expired", code, 400), Caller())
    assert unnamed.hint is not None
    assert "`--profile`" in unnamed.hint


def test_a_missing_permission_names_the_profile_and_not_a_login(refusal: Refusal) -> None:
    text = "User: arn:aws:iam::1:user/x is not authorized to perform: batch:ListServiceJobs"
    error = told(refusal(text, "AccessDeniedException", 403))

    assert isinstance(error, CredentialsError)
    assert text in error.message
    assert error.hint == "Ask for this permission for profile ml, or use others with `--profile`."
    assert told(refusal(text, "AccessDenied", 403), Caller()).hint == (
        "Ask for this permission for these credentials, or use others with `--profile`."
    )


def test_403_from_this_machine_is_an_old_key(refusal: Refusal) -> None:
    error = told(refusal("Forbidden", "403", 403), LOCAL)

    assert isinstance(error, CredentialsError)
    assert error.hint is not None
    assert "`fairshare local start`" in error.hint


@pytest.mark.parametrize(
    "error",
    [
        boto.NoCredentialsError(),
        boto.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
        boto.ProfileNotFound(profile="ml"),
        boto.SSOTokenLoadError(error_msg="no token"),
        boto.UnauthorizedSSOTokenError(),
        boto.TokenRetrievalError(provider="sso", error_msg="expired"),
        boto.LoginRefreshRequired(),
        boto.CredentialRetrievalError(provider="process", error_msg="exit 1"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_request_that_cannot_be_signed_is_a_matter_of_credentials(error: Exception) -> None:
    translated_error = told(error)

    assert isinstance(translated_error, CredentialsError)
    assert str(error) in translated_error.message
    assert translated_error.hint is not None
    assert "aws sso login --profile ml" in translated_error.hint


@pytest.mark.parametrize(
    "error",
    [
        boto.EndpointConnectionError(endpoint_url="https://batch.us-west-2.amazonaws.com/"),
        boto.ReadTimeoutError(endpoint_url="https://batch.us-west-2.amazonaws.com/"),
        boto.ConnectTimeoutError(endpoint_url="https://batch.us-west-2.amazonaws.com/"),
        boto.ConnectionClosedError(endpoint_url="https://batch.us-west-2.amazonaws.com/"),
        boto.ProxyConnectionError(proxy_url="http://proxy"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_answer_is_transient(error: Exception) -> None:
    translated_error = told(error)

    assert isinstance(translated_error, ServiceError)
    assert translated_error.http_status is None
    assert translated_error.is_transient
    assert translated_error.hint == "Check the network, the region and any proxy, then run the same command again."


def test_no_answer_from_this_machine_asks_for_the_local_aws() -> None:
    error = told(boto.EndpointConnectionError(endpoint_url="http://127.0.0.1:5000/v1/x"), Caller())

    assert error.hint == "Nothing answers at this address: is `fairshare local start` running?"


def test_anything_else_of_botocore_is_not_transient() -> None:
    error = told(boto.ParamValidationError(report="Unknown parameter"))

    assert type(error) is FairshareError
    assert "Unknown parameter" in error.message


def test_the_block_passes_other_exceptions_and_chains_its_own(refusal: Refusal) -> None:
    with pytest.raises(ZeroDivisionError), translated("divide", ML):
        raise ZeroDivisionError
    original = refusal("no")
    with pytest.raises(ServiceError, match="Cannot try: no") as caught, translated("try", ML):
        raise original
    assert caught.value.__cause__ is original


@pytest.mark.parametrize(
    ("url", "is_loopback"),
    [
        ("http://127.0.0.1:5000", True),
        ("http://127.9.9.9", True),
        ("http://localhost:5000", True),
        ("http://[::1]:5000", True),
        ("https://batch.us-west-2.amazonaws.com", False),
        ("http://10.0.0.1:5000", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("nonsense", False),
    ],
)
def test_which_addresses_are_this_machine(url: str, is_loopback: bool) -> None:
    assert is_loopback_url(url) is is_loopback
