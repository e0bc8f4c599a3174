from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber

from fairshare.aws.session import AwsSession
from fairshare.model import CredentialsError, NotFoundError, UsageError

SERVICES = ("batch", "sagemaker", "s3", "sts", "cloudwatch", "logs")


@pytest.fixture
def profile_ml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Profile ``ml``, and other credentials, another region and an address in the environment."""
    config, credentials = tmp_path / "config", tmp_path / "credentials"
    config.write_text("[profile ml]\nregion = ap-south-1\n")
    credentials.write_text("[ml]\naws_access_key_id = AKPROFILEML\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def key_of(client: Any) -> tuple[str, str | None]:
    credentials = client._request_signer._credentials.get_frozen_credentials()
    return credentials.access_key, credentials.token


@pytest.mark.usefixtures("profile_ml")
def test_c18_every_client_uses_the_region_and_profile_of_the_session() -> None:
    session = AwsSession(region="eu-west-1", profile="ml")

    clients = [session.client(service) for service in SERVICES]

    assert {client.meta.region_name for client in clients} == {"eu-west-1"}
    assert {key_of(client) for client in clients} == {("AKPROFILEML", None)}
    assert all("eu-west-1" in client.meta.endpoint_url for client in clients)
    assert session.boto_session.region_name == "eu-west-1"


@pytest.mark.usefixtures("profile_ml")
def test_c18_without_a_profile_credentials_come_from_the_environment() -> None:
    assert key_of(AwsSession(region="eu-west-1").client("batch")) == ("AKENVIRONMENT", "t")


@pytest.mark.usefixtures("profile_ml")
def test_real_credentials_never_reach_the_local_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "ml")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://10.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://10.0.0.1:3128")
    session = AwsSession(
        region="us-west-2", endpoint_url="http://127.0.0.1:5000", access_key_id="AKLOCAL", secret_access_key="local"
    )

    clients = [session.client(service) for service in SERVICES]

    assert {key_of(client) for client in clients} == {("AKLOCAL", None)}
    assert {client.meta.endpoint_url for client in clients} == {"http://127.0.0.1:5000"}
    assert {client.meta.config.proxies is not None and not client.meta.config.proxies for client in clients} == {True}
    assert session.boto_session.get_credentials().access_key == "AKLOCAL"


def test_a_missing_profile_in_the_environment_does_not_disturb_the_local_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "gone")
    keys = {"access_key_id": "AKLOCAL", "secret_access_key": "local"}

    AwsSession(region="us-west-2", endpoint_url="http://127.0.0.1:5000", **keys).client("batch")
    with pytest.raises(CredentialsError, match="gone"):
        AwsSession(region="us-west-2").client("batch")


@pytest.mark.parametrize("endpoint_url", [None, "https://batch.us-west-2.amazonaws.com"])
def test_a_local_key_never_reaches_aws(endpoint_url: str | None) -> None:
    with pytest.raises(UsageError, match=f"key of a local AWS cannot be used for {endpoint_url or 'AWS'}"):
        AwsSession(region="us-west-2", endpoint_url=endpoint_url, access_key_id="AKLOCAL", secret_access_key="x")


def test_a_profile_that_does_not_exist_says_how_to_log_in() -> None:
    with pytest.raises(CredentialsError, match="Cannot use the AWS configuration: The config profile") as caught:
        AwsSession(region="us-west-2", profile="nobody").client("batch")

    assert caught.value.hint is not None
    assert "aws sso login --profile nobody" in caught.value.hint


def test_clients_are_made_once_also_by_many_threads() -> None:
    session = AwsSession(region="us-west-2")
    seen: list[Any] = []
    threads = [threading.Thread(target=lambda: seen.append(session.client("batch"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({id(client) for client in seen}) == 1
    assert session.client("batch", retries=0) is not session.client("batch")
    assert session.client("batch", retries=0) is session.client("batch", retries=0)


def test_retries_are_bounded_and_can_be_switched_off() -> None:
    session = AwsSession(region="us-west-2")

    assert session.client("batch").meta.config.retries == {"mode": "standard", "total_max_attempts": 5}
    assert session.client("batch", retries=0).meta.config.retries == {"mode": "standard", "total_max_attempts": 1}
    assert "fairshare/" in session.client("batch").meta.config.user_agent


# -- the account -----------------------------------------------------------------------------------------------------


def answer_sts(session: AwsSession, account: str) -> Stubber:
    stubber = Stubber(session._client("sts", None))
    stubber.add_response("get_caller_identity", {"Account": account})
    stubber.activate()
    return stubber


def test_c18_another_account_than_expected_stops_before_the_first_call(profile_ml: None) -> None:
    session = AwsSession(region="us-west-2", profile="ml", expected_account="111122223333")
    answer_sts(session, "444455556666")

    with pytest.raises(CredentialsError) as caught:
        session.client("batch")

    assert caught.value.message == (
        "Profile ml belongs to account 444455556666, but fairshare.yaml says account 111122223333"
    )
    assert caught.value.hint == "Choose the right profile with `--profile`, or correct `account` in fairshare.yaml."


def test_c18_the_expected_account_passes_and_sts_is_asked_once(profile_ml: None) -> None:
    session = AwsSession(region="us-west-2", profile="ml", expected_account="111122223333")
    stubber = answer_sts(session, "111122223333")

    session.client("batch")
    session.client("s3")

    assert session.account_id == "111122223333"
    stubber.assert_no_pending_responses()


def test_the_account_is_not_checked_on_this_machine() -> None:
    session = AwsSession(
        region="us-west-2",
        endpoint_url="http://127.0.0.1:5000",
        access_key_id="AKLOCAL",
        secret_access_key="x",
        expected_account="111122223333",
    )
    answer_sts(session, "123456789012")

    session.client("batch")

    assert session.account_id == "123456789012"


def test_without_credentials_the_account_is_not_known() -> None:
    with pytest.raises(CredentialsError, match="Cannot ask AWS which account the credentials belong to"):
        _ = AwsSession(region="us-west-2").account_id


@pytest.mark.parametrize(
    ("region", "partition"), [("us-west-2", "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")]
)
def test_partition_and_default_bucket_follow_region_and_account(profile_ml: None, region: str, partition: str) -> None:
    session = AwsSession(region=region)
    answer_sts(session, "111122223333")

    assert session.partition == partition
    assert session.default_bucket == f"sagemaker-{region}-111122223333"


# -- the ready file --------------------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Somebody who listens on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def ready_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a ready file."""

    def write(port: int, **changes: Any) -> Path:
        path = tmp_path / "ready.json"
        ready = {"endpoint_url": f"http://127.0.0.1:{port}", "access_key_id": "AKLOCAL", "secret_access_key": "s"}
        path.write_text(json.dumps(ready | changes))
        return path

    return write


def test_a_ready_file_gives_a_session(ready_file: Callable[..., Path], listener: socket.socket) -> None:
    port = listener.getsockname()[1]

    session = AwsSession.from_ready_file(ready_file(port), "us-west-2")

    assert session.endpoint_url == f"http://127.0.0.1:{port}"
    assert session.is_loopback
    assert key_of(session.client("batch")) == ("AKLOCAL", None)


def test_no_ready_file_says_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"No local AWS is running: there is no .*/ready\.json") as caught:
        AwsSession.from_ready_file(tmp_path / "ready.json", "us-west-2")

    assert caught.value.hint == "Start it with `fairshare local start`."


def test_a_stale_ready_file_is_explained(ready_file: Callable[..., Path], listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    listener.close()

    with pytest.raises(NotFoundError, match=f"has ended: nothing answers at http://127.0.0.1:{port}") as caught:
        AwsSession.from_ready_file(ready_file(port), "us-west-2")

    assert caught.value.hint == "Start it again with `fairshare local start`."


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"endpoint_url": "http://127.0.0.1:1"}', "\x00"])
def test_a_damaged_ready_file_is_no_traceback(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ready.json"
    path.write_text(text)

    with pytest.raises(NotFoundError, match="is not the ready file of a local AWS"):
        AwsSession.from_ready_file(path, "us-west-2")


def test_a_ready_file_cannot_lead_away_from_this_machine(ready_file: Callable[..., Path]) -> None:
    path = ready_file(1, endpoint_url="http://203.0.113.7:5000")

    with pytest.raises(NotFoundError, match=r"cannot be used for http://203\.0\.113\.7:5000"):
        AwsSession.from_ready_file(path, "us-west-2")
