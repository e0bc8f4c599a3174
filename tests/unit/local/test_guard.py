"""Who is let in."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from fairshare.local.guard import Guard
from fairshare.local.signature import Credential, credentials_of

KEY = "AKIAABCDEFGHIJKLMNOP"
SCOPE = f"{KEY}/20261130/us-west-2/batch/aws4_request"
SIGNED = f"AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders=host;x-amz-date, Signature=abc"


def ask(**environ: Any) -> tuple[str, dict[str, str], str]:
    """Ask a guard in front of an application that answers ``inside``; return status, headers and body."""
    answer: list[Any] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"inside"]

    request = {"REQUEST_METHOD": "POST", "HTTP_HOST": "127.0.0.1:5000", "HTTP_AUTHORIZATION": SIGNED} | environ
    request = {name: value for name, value in request.items() if value is not None}
    body = Guard(app, access_key_id=KEY, port=5000)(request, lambda *start: answer.extend(start))
    return answer[0], dict(answer[1]), b"".join(body).decode()


@pytest.mark.parametrize("host", ["127.0.0.1:5000", "localhost:5000", "LOCALHOST:5000"])
def test_the_right_key_on_a_loopback_host_is_let_in(host):
    assert ask(HTTP_HOST=host) == ("200 OK", {}, "inside")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:5001",
        "attacker.example:5000",
        "127.0.0.1.attacker.example:5000",
        "localhost:5000.attacker.example",
        "[::1]:5000",
        "",
        None,
    ],
)
def test_another_host_is_refused(host):
    status, _, body = ask(HTTP_HOST=host)
    assert status == "403 Forbidden"
    assert json.loads(body) == {
        "__type": "AccessDenied",
        "message": "The local AWS answers to 127.0.0.1 and localhost only, not to another name in the Host header.",
    }


@pytest.mark.parametrize("origin", ["http://127.0.0.1:5000", "https://attacker.example", "null", ""])
def test_a_browser_is_refused(origin):
    status, _, body = ask(HTTP_ORIGIN=origin)
    assert status == "403 Forbidden"
    assert "does not answer web pages (the request has an Origin header)" in body


OTHER = SCOPE.replace(KEY, "AKIAZZZZZZZZZZZZZZZZ")


@pytest.mark.parametrize(
    "environ",
    [
        {"HTTP_AUTHORIZATION": SIGNED.replace(SCOPE, OTHER)},
        {"HTTP_AUTHORIZATION": SIGNED.replace(SCOPE, KEY.lower() + SCOPE[20:])},
        {"HTTP_AUTHORIZATION": SIGNED.replace(SCOPE, KEY + "X" + SCOPE[20:])},
        {"HTTP_AUTHORIZATION": f"{SIGNED}, Credential={OTHER}"},
        {"HTTP_AUTHORIZATION": None, "QUERY_STRING": f"X-Amz-Credential={quote(OTHER, safe='')}"},
        {"QUERY_STRING": f"X-Amz-Credential={quote(OTHER, safe='')}"},
        {"HTTP_AUTHORIZATION": "AWS AKIAZZZZZZZZZZZZZZZZ:signature"},
        {"HTTP_AUTHORIZATION": None, "QUERY_STRING": "AWSAccessKeyId=AKIAZZZZZZZZZZZZZZZZ&Signature=x"},
    ],
)
def test_another_key_is_refused_in_every_form(environ):
    status, headers, body = ask(**environ)
    assert status == "403 Forbidden"
    assert headers["x-amzn-ErrorType"] == "InvalidClientTokenId"
    assert "This is not the access key of the local AWS" in body


@pytest.mark.parametrize(
    "environ",
    [
        {"HTTP_AUTHORIZATION": None},
        {"HTTP_AUTHORIZATION": ""},
        {"HTTP_AUTHORIZATION": f"Bearer {KEY}"},
        {"HTTP_AUTHORIZATION": f"Basic {KEY}"},
        {"HTTP_AUTHORIZATION": None, "PATH_INFO": "/moto-api/reset"},
        {"HTTP_AUTHORIZATION": None, "REQUEST_METHOD": "GET", "PATH_INFO": "/"},
        {"HTTP_AUTHORIZATION": None, "HTTP_X_AMZ_TARGET": "AWSCognitoIdentityService.GetId"},
    ],
)
def test_an_unsigned_request_is_refused(environ):
    status, headers, body = ask(**environ)
    assert (status, headers["x-amzn-ErrorType"]) == ("403 Forbidden", "MissingAuthenticationToken")
    assert "The local AWS answers signed requests only." in body


@pytest.mark.parametrize(
    "environ",
    [
        {"HTTP_AUTHORIZATION": None, "QUERY_STRING": f"X-Amz-Credential={quote(SCOPE, safe='')}"},
        {"HTTP_AUTHORIZATION": f"AWS4-ECDSA-P256-SHA256 Credential={KEY}/20261130/s3/aws4_request, SignedHeaders=host"},
        {"HTTP_AUTHORIZATION": f"AWS {KEY}:signature"},
    ],
)
def test_the_right_key_is_let_in_in_every_form(environ):
    assert ask(**environ)[2] == "inside"


def test_each_client_reads_the_error_in_its_own_form():
    s3 = SIGNED.replace("/batch/", "/s3/").replace(KEY, "AKIAZZZZZZZZZZZZZZZZ")
    text = (
        "This is not the access key of the local AWS, which makes a new one at each start. Use `--local`, or the key "
    )
    text += "in its ready file."
    assert ask(HTTP_AUTHORIZATION=s3)[2] == (
        f"<Error><Code>InvalidClientTokenId</Code><Message>{text}</Message></Error>"
    )
    form = ask(HTTP_AUTHORIZATION=s3, CONTENT_TYPE="application/x-www-form-urlencoded; charset=utf-8")[2]
    assert form.startswith("<ErrorResponse><Error><Type>Sender</Type><Code>InvalidClientTokenId</Code>")
    status, headers, body = ask(HTTP_AUTHORIZATION=s3, REQUEST_METHOD="HEAD")
    assert (status, headers["Content-Length"], body) == ("403 Forbidden", "0", "")


def test_credentials_are_read_with_their_service():
    assert credentials_of(SIGNED, "") == [Credential(KEY, "batch")]
    query = f"a=b&X-Amz-Credential={quote(SCOPE.replace('batch', 's3'), safe='')}&AWSAccessKeyId=OLD"
    assert credentials_of(SIGNED, query) == [Credential(KEY, "batch"), Credential(KEY, "s3"), Credential("OLD")]
    assert credentials_of("AWS4-HMAC-SHA256 Credential=garbage, Signature=x", "") == [Credential("garbage")]
    assert credentials_of("", "") == []
