"""The SDK is imported late, says nothing on standard output and leaves logging and warnings as they were."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from fairshare.model import UsageError
from fairshare.trainer.sdk import _no_collection, quiet_sdk, sdk_defaults

MODULES = ("payload", "targets", "sdk", "encode", "drivers", "recorder", "source")


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)


def test_importing_the_package_imports_no_sdk() -> None:
    imports = "\n".join(f"import fairshare.trainer.{name}" for name in MODULES)
    heavy = "{'sagemaker', 'boto3', 'botocore', 'moto', 'pydantic'} & set(sys.modules)"
    assert run(f"import sys\n{imports}\nprint({heavy})").stdout == "set()\n"


def test_loading_the_sdk_prints_nothing_and_leaves_the_root_logger_alone() -> None:
    done = run(
        "import logging, warnings\n"
        "warnings.simplefilter('error')\n"
        "from fairshare.trainer.sdk import quiet_sdk\n"
        "with quiet_sdk():\n"
        "    import sagemaker.train.aws_batch.training_queued_job\n"  # runs logging.basicConfig
        "root = logging.getLogger()\n"
        "assert (root.level, root.handlers) == (logging.WARNING, []), (root.level, root.handlers)\n"
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_the_sdks_own_warnings_are_collected_once_and_its_chatter_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with quiet_sdk():
        pass  # botocore logs while the SDK is imported, if it was not before
    caplog.set_level(logging.DEBUG)
    with quiet_sdk() as said:
        for _ in range(2):
            logging.getLogger("sagemaker.train").warning("mind %s", "this")
        logging.getLogger("sagemaker.config").info("Not applying SDK defaults")
        logging.getLogger("mine").info("kept")
    assert said == ["mind this"]
    assert [record.getMessage() for record in caplog.records] == ["kept"]
    assert logging.getLogger("sagemaker").propagate is True


def test_warnings_of_the_users_own_code_are_not_hidden() -> None:
    with pytest.warns(UserWarning, match="mine"), quiet_sdk():
        warnings.warn("mine", stacklevel=1)


def test_telemetry_is_opted_out_with_and_without_a_configuration_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}}
    with quiet_sdk():
        assert sdk_defaults(None) == {"SchemaVersion": "1.0", "SageMaker": out}
        file = tmp_path / "config.yaml"
        file.write_text("SchemaVersion: '1.0'\nSageMaker: {PythonSDK: {Modules: {TelemetryOptOut: false}}}\n")
        monkeypatch.setenv("SAGEMAKER_USER_CONFIG_OVERRIDE", str(file))
        assert sdk_defaults(None) == {"SchemaVersion": "1.0", "SageMaker": out}


@pytest.mark.parametrize("text", [": : :", "SageMaker: {NoSuchSection: 1}\n"])
def test_a_wrong_configuration_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    monkeypatch.setenv("SAGEMAKER_USER_CONFIG_OVERRIDE", str(file))
    with quiet_sdk(), pytest.raises(UsageError) as caught:
        sdk_defaults(None)
    assert caught.value.message.startswith("the SageMaker SDK's configuration file is wrong: ")
    assert "SAGEMAKER_USER_CONFIG_OVERRIDE" in str(caught.value.hint)


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_as_it_was_after_the_import(was_on: bool) -> None:
    on_before = gc.isenabled()
    (gc.enable if was_on else gc.disable)()
    try:
        with _no_collection():
            assert not gc.isenabled()
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if on_before else gc.disable)()
