"""A good project file: what it becomes, what is warned about, and how it is found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pydantic
import pytest

from fairshare.config.jobs import Limits
from fairshare.config.project import (
    Defaults,
    FairshareConfig,
    Project,
    QueueConfig,
    ServiceEnvironmentConfig,
    find_project,
    load_project,
)
from fairshare.model import InvalidFileError

Read = Callable[[str], Project]
Vary = Callable[..., str]


def test_a_whole_project(read_project: Read, project_text: str) -> None:
    project = read_project(project_text)
    assert project == Project(
        version=1,
        stack="search-ml",
        region="us-west-2",
        service_environments={
            "gpu": ServiceEnvironmentConfig(capacity=16, instance_types=("ml.g6.12xlarge",)),
            "cpu": ServiceEnvironmentConfig(capacity=8, instance_types=("ml.c5.2xlarge",)),
        },
        queues={
            "gpu": QueueConfig(
                service_environment="gpu",
                priority=10,
                fairshare=FairshareConfig(
                    share_decay_seconds=3600, shares={"HIGHPRI": "1", "MIDPRI": "3", "LOWPRI": "5"}
                ),
            ),
            "batch": QueueConfig(service_environment="cpu"),
        },
        defaults=Defaults(
            queue="gpu", share="LOWPRI", priority=10, role="MLTraining", image="my-image-uri", max_runtime=86_400
        ),
        file=Path("file.yaml"),
    )
    assert project.warnings == ()
    assert not project.queues["gpu"].is_fifo
    assert project.queues["batch"].is_fifo


def test_the_smallest_project(read_project: Read) -> None:
    project = read_project("version: 1\nstack: s\n")
    assert (project.region, project.profile, project.account) == (None, None, None)
    assert (project.queues, project.service_environments, project.tags) == ({}, {}, {})
    assert project.defaults == Defaults()


def test_c08_priority_zero_is_a_priority(read_project: Read, vary: Vary) -> None:
    project = read_project(vary(("priority: 10,", "priority: 0,"), ("    priority: 10\n", "    priority: 0\n")))
    assert project.defaults.priority == 0
    assert project.queues["gpu"].priority == 0


@pytest.mark.parametrize("account", ["012345670123", "098765432109", "123456789012", "'012345670123'"])
def test_c06_account_is_exactly_what_was_written(read_project: Read, account: str) -> None:
    assert read_project(f"version: 1\nstack: s\naccount: {account}\n").account == account.strip("'")


def test_c11_weights_may_be_written_with_an_exponent(read_project: Read, with_shares: Callable[[str], str]) -> None:
    project = read_project(
        with_shares("{A: {weight_factor: 1e0}, B: {weight_factor: 25e-2}, C: {weight_factor: 0.10}}")
    )
    fairshare = project.queues["gpu"].fairshare
    assert fairshare is not None
    assert fairshare.shares == {"A": "1", "B": "0.25", "C": "0.10"}


def test_c11_text_fields_keep_what_was_written(read_project: Read) -> None:
    project = read_project("version: 1\nstack: 010\nprofile: no\ntags: {cost: 010, on: off, ratio: 3.10}\n")
    assert (project.stack, project.profile) == ("010", "no")
    assert project.tags == {"cost": "010", "on": "off", "ratio": "3.10"}


@pytest.mark.parametrize("weight", ["0.0001", "999.9999", "1", "5e2"])
def test_c32_weights_at_the_bounds(read_project: Read, with_shares: Callable[[str], str], weight: str) -> None:
    fairshare = read_project(with_shares(f"{{A: {{weight_factor: {weight}}}}}")).queues["gpu"].fairshare
    assert fairshare is not None
    assert float(fairshare.shares["A"]) == float(weight)


def test_targets_become_weights(read_project: Read, with_shares: Callable[[str], str]) -> None:
    project = read_project(with_shares("{HIGH: {target: 60%}, MID: {target: 30%}, LOW: {target: 10%}}"))
    fairshare = project.queues["gpu"].fairshare
    assert fairshare is not None
    assert fairshare.shares == {"HIGH": "1", "MID": "2", "LOW": "6"}


def test_targets_may_have_decimals_and_add_up_exactly(read_project: Read, with_shares: Callable[[str], str]) -> None:
    project = read_project(with_shares("{A: {target: 33.3%}, B: {target: 33.3 %}, C: {target: 33.4%}}"))
    assert project.queues["gpu"].fairshare is not None


def test_a_fair_share_queue_needs_no_shares(read_project: Read, vary: Vary) -> None:
    text = vary(("{service_environment: cpu, fifo: true}", "{service_environment: cpu, fairshare: {}}"))
    assert read_project(text).queues["batch"].fairshare == FairshareConfig()


def test_decay_takes_a_duration(read_project: Read, vary: Vary) -> None:
    fairshare = read_project(vary(("3600", "7d"))).queues["gpu"].fairshare
    assert fairshare is not None
    assert fairshare.share_decay_seconds == 604_800


def test_the_models_are_frozen(read_project: Read, project_text: str) -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        read_project(project_text).stack = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("gpu", "gpu"),
        ("search-ml-gpu", "gpu"),
        ("search-ml-batch", "batch"),
        ("arn:aws:batch:us-west-2:111122223333:job-queue/search-ml-gpu", "gpu"),
        ("arn:aws:batch:eu-west-1:111122223333:job-queue/search-ml-gpu", None),
        ("arn:aws:batch:us-west-2:111122223333:job-queue/gpu", None),
        ("arn:aws:batch:us-west-2:111122223333:scheduling-policy/search-ml-gpu", None),
        ("arn:nonsense", None),
        ("other", None),
    ],
)
def test_a_queue_is_found_by_key_name_or_arn(read_project: Read, project_text: str, name: str, key: str | None) -> None:
    project = read_project(project_text)
    assert project.queue(name) == (None if key is None else (key, project.queues[key]))


def test_an_arn_of_another_account_is_not_ours(read_project: Read, project_text: str) -> None:
    arn = "arn:aws:batch:us-west-2:111122223333:job-queue/search-ml-gpu"
    assert read_project(project_text + "account: 111122223333\n").queue(arn) is not None
    assert read_project(project_text + "account: 012345670123\n").queue(arn) is None


def test_a_key_wins_over_a_resource_name(read_project: Read, vary: Vary) -> None:
    project = read_project(vary(("  batch: {", "  search-ml-gpu: {")))
    assert project.queue("search-ml-gpu") == ("search-ml-gpu", project.queues["search-ml-gpu"])
    assert project.resource_name("gpu") == "search-ml-gpu"


def warnings(project: Project) -> list[str]:
    assert all(w.severity == "warning" for w in project.warnings)
    return [f"{w.line}:{w.column} {w.message} | {w.hint}" for w in project.warnings]


def test_c03_hyphen_and_underscore_only_warn(read_project: Read, with_shares: Callable[[str], str]) -> None:
    project = read_project(with_shares("{TEAM-A: {weight_factor: 1}, TEAM_B: {weight_factor: 2}}"))
    hint = "AWS documents letters and digits only and may refuse it"
    assert warnings(project) == [
        f"7:2 share identifier TEAM-A holds a hyphen or underscore | {hint}",
        f"7:30 share identifier TEAM_B holds a hyphen or underscore | {hint}",
    ]


def test_c03_prefixes_side_by_side_are_fine(read_project: Read, with_shares: Callable[[str], str]) -> None:
    project = read_project(with_shares("{TEAM1*: {weight_factor: 1}, TEAM2*: {weight_factor: 2}}"))
    assert warnings(project) == []


def test_a_share_for_everybody_warns(read_project: Read, with_shares: Callable[[str], str]) -> None:
    project = read_project(with_shares('{"*": {weight_factor: 1}}'))
    assert warnings(project) == [
        "7:2 share identifier * covers every share | AWS documents a * only behind a prefix and may refuse it"
    ]


def test_an_environment_without_a_queue_warns(read_project: Read, vary: Vary) -> None:
    text = vary(("  batch: {service_environment: cpu, fifo: true}\n", ""))
    assert warnings(read_project(text)) == ["6:3 no queue uses service environment cpu | "]


def test_two_queues_on_one_environment_warn(read_project: Read, vary: Vary) -> None:
    text = vary(
        ("environment: cpu", "environment: gpu"), ("  cpu: {capacity: 8, instance_types: [ml.c5.2xlarge]}\n", "")
    )
    assert warnings(read_project(text)) == [
        "5:3 queues gpu and batch share service environment gpu | "
        "the queue with the higher priority is served first; shares do not reach across queues"
    ]


def test_a_default_share_without_a_fair_share_queue_warns(read_project: Read) -> None:
    text = (
        "version: 1\nstack: s\nservice_environments: {cpu: {capacity: 1, instance_types: [ml.c5.large]}}\n"
        "queues: {batch: {service_environment: cpu, fifo: true}}\ndefaults: {share: LOWPRI}\n"
    )
    assert warnings(read_project(text)) == [
        "5:19 defaults.share has no effect: no queue of this file is a fair-share queue | "
    ]


def test_a_default_instance_type_that_no_environment_lists_warns(read_project: Read, vary: Vary) -> None:
    text = vary(("role: MLTraining", "instance_type: ml.g6.2xlarge"))
    assert warnings(read_project(text)) == [
        "19:68 no service environment lists ml.g6.2xlarge | "
        "did you mean ml.g6.12xlarge? (instance types: ml.g6.12xlarge, ml.c5.2xlarge)"
    ]


@pytest.mark.parametrize(
    "defaults",
    [
        "{queue: search-ml-gpu, share: MIDPRI}",
        "{share: LOWPRI}",
        "{queue: batch, share: LOWPRI}",
        "{queue: 'arn:aws:batch:us-west-2:111122223333:job-queue/theirs', share: ANY}",
    ],
)
def test_defaults_that_refer_to_what_exists(read_project: Read, project_text: str, defaults: str) -> None:
    head, _, tail = project_text.partition("defaults:")
    text = f"{head}defaults: {defaults}\n{tail.partition(chr(10))[2]}"
    assert read_project(text).warnings == ()


def test_a_default_share_may_match_a_prefix(read_project: Read, with_shares: Callable[[str], str]) -> None:
    text = with_shares("{TEAM*: {weight_factor: 1}}") + "defaults: {share: TEAMX7}\n"
    assert read_project(text).defaults.share == "TEAMX7"


def test_find_project_goes_up_to_the_repository_root(tmp_path: Path) -> None:
    deep = tmp_path / "repo" / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "fairshare.yaml").touch()
    assert find_project(deep) == tmp_path / "fairshare.yaml"
    (tmp_path / "repo" / ".git").mkdir()
    assert find_project(deep) is None, "what lies outside of the repository is not ours"
    (tmp_path / "repo" / "fairshare.yaml").touch()
    assert find_project(deep) == tmp_path / "repo" / "fairshare.yaml"
    (deep / "fairshare.yaml").touch()
    assert find_project(deep) == deep / "fairshare.yaml"


def test_find_project_makes_the_start_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fairshare.yaml").touch()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert find_project(Path()) == tmp_path / "fairshare.yaml"


def test_load_project_reads_windows_files(tmp_path: Path, project_text: str) -> None:
    path = tmp_path / "fairshare.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + project_text.replace("\n", "\r\n").encode())
    assert load_project(path).file == path


def test_load_project_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError) as refused:
        load_project(tmp_path / "none.yaml")
    assert str(refused.value) == f"{tmp_path / 'none.yaml'}: error: cannot be read: no such file or directory"


def test_importing_is_cheap_until_a_file_is_read() -> None:
    code = (
        "import sys; import fairshare.config.jobs, fairshare.config.durations, fairshare.config.paths, "
        "fairshare.config.errors; print('pydantic' in sys.modules); import fairshare.config.project; "
        "print([m for m in ('ruamel.yaml', 'boto3', 'moto', 'sagemaker') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n[]\n"


def test_limits_of_launches(read_project: Read, project_text: str) -> None:
    limits = read_project(project_text + "limits: {concurrent_launches: 8, read_bandwidth: 2GiB/s}\n").limits
    assert limits == Limits(concurrent_launches=8, read_bandwidth=2 * 2**30)
    assert read_project(project_text).limits == Limits()
