from __future__ import annotations

import importlib.util
import shutil
import tarfile
from pathlib import Path

import pytest

from fairshare.local.processes.localise import Localiser, is_safe_path, mentions_of_container_root, uses_mpi


@pytest.fixture
def localiser() -> Localiser:
    return Localiser(Path("/jobs/j/ml"), Path("/jobs/j/environment"), 17_001)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/opt/ml", "/jobs/j/ml"),
        ("/opt/ml/model", "/jobs/j/ml/model"),
        ("--dir=/opt/ml/model:/opt/ml/code", "--dir=/jobs/j/ml/model:/jobs/j/ml/code"),
        ("file:///opt/ml/x", "file:///jobs/j/ml/x"),
        ('f"{/opt/ml}"', 'f"{/jobs/j/ml}"'),
        ("s3://bucket/opt/ml/model", "s3://bucket/opt/ml/model"),
        ("/opt/ml-data", "/opt/ml-data"),
        ("/opt/mlflow", "/opt/mlflow"),
        ("/opt/ml.bak", "/opt/ml.bak"),
        ("./opt/ml", "./opt/ml"),
    ],
)
def test_only_the_containers_root_is_replaced(localiser: Localiser, text: str, expected: str) -> None:
    assert localiser.text(text) == expected


def test_a_path_with_backslashes_is_taken_literally() -> None:
    assert Localiser(Path(r"/j\1"), Path("/e"), 1).text("/opt/ml") == r"/j\1"


@pytest.fixture
def drivers(tmp_path: Path) -> Path:
    """A copy of the installed SDK's drivers, as its payload builder sends them."""
    found = importlib.util.find_spec("sagemaker.train")
    assert found is not None
    assert found.origin is not None
    shutil.copytree(Path(found.origin).parent / "container_drivers", tmp_path / "sm_drivers")
    return tmp_path / "sm_drivers"


def text_of(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.rglob("*")) if path.suffix in {".py", ".sh", ".json"})


def test_the_installed_sdks_drivers_hold_what_is_replaced_and_nothing_of_it_is_left(
    localiser: Localiser, drivers: Path
) -> None:
    before = text_of(drivers)
    for old in ("/opt/ml/", 'SM_MASTER_ADDR = "algo-1"', "SM_MASTER_PORT = 7777", "/usr/sbin/sshd", "/etc/environment"):
        assert old in before
    localiser.drivers(drivers)
    after = text_of(drivers)
    for old in ("/opt/ml", 'SM_MASTER_ADDR = "algo-1"', "SM_MASTER_PORT = 7777", "/usr/sbin/sshd", "/etc/environment"):
        assert old not in after
    for new in ('SM_MASTER_ADDR = "127.0.0.1"', "SM_MASTER_PORT = 17001", '"/jobs/j/ml/model"', "/jobs/j/environment"):
        assert new in after
    for file in drivers.rglob("*.py"):
        compile(file.read_text(), str(file), "exec")


def test_compiled_files_are_deleted_and_others_left_alone(localiser: Localiser, drivers: Path) -> None:
    (drivers / "common" / "__pycache__").mkdir(exist_ok=True)
    (drivers / "common" / "__pycache__" / "utils.cpython-311.pyc").write_bytes(b"\0/opt/ml")
    (drivers / "data.bin").write_bytes(b"\xff/opt/ml")
    localiser.drivers(drivers)
    assert list(drivers.rglob("__pycache__")) == []
    assert (drivers / "data.bin").read_bytes() == b"\xff/opt/ml"


def test_under_mpi_the_only_host_is_localhost(localiser: Localiser, drivers: Path) -> None:
    assert not uses_mpi(drivers)
    (drivers / "sm_train.sh").write_text(
        "$SM_PYTHON_CMD /opt/ml/input/data/sm_drivers/distributed_drivers/mpi_driver.py"
    )
    assert uses_mpi(drivers)
    localiser.drivers(drivers)
    assert 'SM_MASTER_ADDR = "localhost"' in text_of(drivers)
    assert (drivers / "sm_train.sh").read_text().startswith("$SM_PYTHON_CMD /jobs/j/ml/input/data/sm_drivers/")


def test_no_drivers_nothing_to_do(localiser: Localiser, tmp_path: Path) -> None:
    localiser.drivers(tmp_path / "absent")


@pytest.mark.parametrize(
    ("path", "is_safe"),
    [
        ("/home/me/.local/state/fairshare/jobs", True),
        ("/home/josé/jobs", True),
        ("/home/me/my jobs", False),
        ("/home/o'neill", False),
        ('/a"b', False),
        ("/a$b", False),
        ("/a:b", False),
        ("/a\nb", False),
    ],
)
def test_paths_that_the_sdks_scripts_cannot_take_are_known(path: str, is_safe: bool) -> None:
    assert is_safe_path(Path(path)) is is_safe


def test_mentions_of_the_containers_root_are_found_where_they_matter(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "train.py").write_text(
        '# writes to /opt/ml/model\nout = "/opt/ml/model"\nd = os.environ.get("SM_MODEL_DIR", "/opt/ml/model")\n'
    )
    (tmp_path / "pkg" / "io.py").write_bytes(b"x = '\xff'\n\nopen('/opt/ml/input/data/train/a.csv')\n")
    (tmp_path / "notes.md").write_text("/opt/ml")
    assert list(mentions_of_container_root(tmp_path)) == ["pkg/io.py:3", "train.py:2"]


def test_mentions_are_found_in_a_packed_source_as_well(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text("a = 1\nopen('/opt/ml/input/data/x')\n")
    code = tmp_path / "code"
    code.mkdir()
    with tarfile.open(code / "3f2a.tar.gz", "w:gz") as tar:
        tar.add(source, "pkg/train.py")
    (code / "damaged.tar.gz").write_bytes(b"not an archive")
    assert list(mentions_of_container_root(code)) == ["pkg/train.py:2"]
