"""The session that records: fixed answers, no client, no connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairshare.model import UsageError
from fairshare.trainer.recorder import Recorder
from fairshare.trainer.sdk import quiet_sdk


@pytest.fixture
def recorder() -> Recorder:
    return Recorder("team-bucket")


@pytest.fixture
def session(recorder: Recorder) -> Any:
    with quiet_sdk():
        from fairshare.trainer.session import RecordingSession

        return RecordingSession(recorder, region="cn-north-1", account_id="111122223333", defaults={})


def test_bucket_account_and_region_are_fixed(session: Any) -> None:
    assert session.default_bucket() == "team-bucket"
    assert session.account_id() == "111122223333"
    assert session.boto_region_name == "cn-north-1"
    assert session.boto_session.region_name == "cn-north-1"


def test_a_directory_is_recorded_whole_and_answered_with_one_prefix(
    session: Any, recorder: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.csv").write_text("1")
    (tmp_path / ".env").write_text("an input may hold anything")
    uri = session.upload_data(str(tmp_path), bucket="team-bucket", key_prefix="x/x-20261130/input/train")
    assert uri.startswith("s3://team-bucket/fairshare/input/")
    assert [upload.s3_uri for upload in recorder.uploads] == [f"{uri}.env", f"{uri}sub/a.csv"]


def test_the_key_prefix_with_the_time_in_it_has_no_say(session: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = session.upload_data(str(tmp_path), key_prefix="job-20261130120000/input/train")
    assert first == session.upload_data(str(tmp_path), key_prefix="job-20261130120001/input/train")


def test_drivers_go_without_byte_code(session: Any, recorder: Recorder, tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/a.pyc").write_bytes(b"machine dependent")
    (tmp_path / "a.py").write_text("")
    uri = session.upload_data(str(tmp_path), key_prefix="x/input/sm_drivers")
    assert uri.startswith("s3://team-bucket/fairshare/drivers/")
    assert [upload.s3_uri for upload in recorder.uploads] == [f"{uri}a.py"]


def test_a_file_and_a_string_keep_their_names(session: Any, recorder: Recorder, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("a: 1")
    extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/ml"}
    from_file = session.upload_data(str(tmp_path / "recipe.yaml"), key_prefix="x/recipe", extra_args=extra)
    from_text = session.upload_string_as_file_body("a: 1", bucket="other", key="deep/recipe.yaml", kms_key="alias/ml")
    assert [upload.s3_uri for upload in recorder.uploads] == [from_file, from_text]
    assert {upload.kms_key for upload in recorder.uploads} == {"alias/ml"}
    assert from_file.replace("team-bucket", "other") == from_text
    assert from_text.endswith("/recipe.yaml")


def test_iam_is_answered_here_and_other_services_are_refused(session: Any) -> None:
    iam = session.boto_session.client("iam")
    assert iam.get_role(RoleName="R")["Role"]["Arn"] == "arn:aws-cn:iam::111122223333:role/R"
    assert iam.simulate_principal_policy(PolicySourceArn="x", ActionNames=["y"]) == {}
    with pytest.raises(UsageError, match="the SageMaker SDK wants to call s3 while it describes a training job"):
        session.boto_session.client("s3")
    with pytest.raises(UsageError, match="wants to call s3"):
        session.boto_session.resource("s3")
