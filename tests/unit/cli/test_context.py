import io
from pathlib import Path

import pytest

from fairshare.cli.context import AppContext, Options, QueueChoice
from fairshare.model import FairshareError, NotFoundError, UsageError

TWO_QUEUES = """\
version: 1
stack: search
service_environments:
  gpu: {capacity: 16, instance_types: [ml.g6.12xlarge]}
queues:
  gpu: {service_environment: gpu, fairshare: {shares: {HIGHPRI: {weight_factor: 1}}}}
  batch: {service_environment: gpu, fifo: true}
"""


@pytest.fixture
def make(project):
    def make_context(environ=None, *, cwd=project, **options):
        return AppContext(Options(**options), environ or {}, cwd)

    return make_context


@pytest.fixture
def no_region(project):
    """Take the region out of the project file."""
    file = project / "fairshare.yaml"
    file.write_text(file.read_text().replace("region: eu-west-1\n", ""))


def test_the_project_is_found_upwards(make, project):
    deep = project / "a" / "b"
    deep.mkdir(parents=True)

    assert make(cwd=deep).project.stack == "search"


def test_a_file_given_wins_and_must_exist(make, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text((tmp_path / "fairshare.yaml").read_text().replace("search", "vision"))

    assert make(file=other).project.stack == "vision"
    with pytest.raises(UsageError, match=r"there is no file nowhere\.yaml"):
        _ = make(file=Path("nowhere.yaml")).project


def test_no_project_is_fine_until_one_is_needed(make, tmp_path):
    empty = tmp_path / "empty"
    (empty / ".git").mkdir(parents=True)
    context = make(cwd=empty)

    assert context.project is None
    assert context.stack == ""
    with pytest.raises(UsageError) as caught:
        context.require_project()
    assert caught.value.message == f"no fairshare.yaml in {empty} or above"
    assert "--file" in caught.value.hint


def test_c18_region_precedence(make, no_region, project, tmp_path):
    profile = tmp_path / "aws-config"
    profile.write_text("[profile ml]\nregion = sa-east-1\n")
    environ = {"AWS_REGION": "us-west-1", "AWS_DEFAULT_REGION": "us-west-2"}
    (project / "with.yaml").write_text((project / "fairshare.yaml").read_text() + "region: eu-west-1\n")
    with_region = project / "with.yaml"

    assert make(environ, region="ap-south-1", file=with_region).region == "ap-south-1"
    assert make(environ, file=with_region).region == "eu-west-1"
    assert make(environ).region == "us-west-1"
    assert make({"AWS_DEFAULT_REGION": "us-west-2"}).region == "us-west-2"


def test_c18_the_region_of_the_profile_comes_last(make, no_region, tmp_path, monkeypatch):
    config = tmp_path / "aws-config"
    config.write_text("[profile ml]\nregion = sa-east-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))

    assert make(profile="ml").region == "sa-east-1"
    with pytest.raises(UsageError, match="no AWS region is chosen"):
        _ = make(profile="unheard-of").region


@pytest.mark.parametrize("options", [{"local": True}, {"endpoint_url": "http://127.0.0.1:4567"}])
def test_an_aws_on_this_machine_has_a_region_by_default(make, no_region, options):
    assert make(**options).region == "us-east-1"


def test_no_region_at_all_says_what_to_do(make, no_region):
    with pytest.raises(UsageError) as caught:
        _ = make(endpoint_url="https://batch.example.com").region

    assert caught.value.hint == "give --region, set AWS_REGION, or write it in fairshare.yaml"


@pytest.mark.parametrize(
    ("options", "flag"), [({"endpoint_url": "http://127.0.0.1:1"}, "--endpoint-url"), ({"profile": "ml"}, "--profile")]
)
def test_local_excludes_other_addresses_and_credentials(make, options, flag):
    with pytest.raises(UsageError, match=f"--local and {flag} exclude each other"):
        make(local=True, **options)


def test_c18_session_takes_profile_address_and_account_of_flags_over_the_project(make, project):
    file = project / "fairshare.yaml"
    file.write_text(file.read_text() + 'profile: ml\naccount: "111122223333"\n')

    session = make({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}).session
    assert (session.region, session.profile, session.endpoint_url) == ("eu-west-1", "ml", "http://127.0.0.1:9")

    session = make(
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, profile="other", endpoint_url="http://127.0.0.1:8"
    ).session
    assert (session.profile, session.endpoint_url) == ("other", "http://127.0.0.1:8")


def test_local_without_a_local_aws_says_how_to_start_one(make, tmp_path):
    with pytest.raises(NotFoundError) as caught:
        _ = make({"FAIRSHARE_STATE_DIR": str(tmp_path / "state")}, local=True).session

    assert "fairshare local start" in caught.value.hint


def test_the_state_directory_is_honoured(make, tmp_path):
    context = make({"FAIRSHARE_STATE_DIR": str(tmp_path / "here")})

    assert context.state_dir == tmp_path / "here"
    assert context.runs_dir == tmp_path / "here" / "runs"


@pytest.mark.parametrize(
    "given", [None, "gpu", "search-gpu", "arn:aws:batch:eu-west-1:111122223333:job-queue/search-gpu"]
)
def test_a_queue_goes_by_key_name_or_arn_and_the_only_one_needs_none(make, given):
    choice = make().choose_queue(given)

    assert (choice.name, choice.key, choice.config.is_fifo) == ("search-gpu", "gpu", False)
    assert make().capacity_of(choice) == 16


def test_a_queue_of_others_is_taken_as_it_is(make):
    choice = make().choose_queue("theirs")

    assert choice == QueueChoice("theirs")
    assert make().capacity_of(choice) is None


def test_with_several_queues_the_default_is_taken_or_one_must_be_named(make, project):
    file = project / "fairshare.yaml"
    file.write_text(TWO_QUEUES)

    with pytest.raises(UsageError) as caught:
        make().choose_queue(None)
    assert caught.value.message == "no queue is chosen; the project has gpu, batch"
    assert "-q QUEUE" in caught.value.hint

    file.write_text(TWO_QUEUES + "defaults: {queue: batch}\n")
    assert make().choose_queue(None).name == "search-batch"


def test_without_a_project_a_queue_must_be_named(make, tmp_path):
    empty = tmp_path / "empty"
    (empty / ".git").mkdir(parents=True)

    assert make(cwd=empty).choose_queue("theirs").name == "theirs"
    with pytest.raises(UsageError, match=r"no fairshare\.yaml names one"):
        make(cwd=empty).choose_queue(None)


def test_nobody_is_asked_without_a_terminal(make, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    with pytest.raises(UsageError) as caught:
        make().confirm("Sure?")
    assert (caught.value.exit_code, caught.value.hint) == (2, "add --yes if you are sure")


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_yes_is_yes(make, at_terminal, capsys, answer):
    at_terminal(answer)

    make().confirm("Sure?")

    assert capsys.readouterr().err == "Sure? [y/N] "


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_everything_else_is_no(make, at_terminal, answer):
    at_terminal(answer)

    with pytest.raises(FairshareError, match="not confirmed, nothing was changed"):
        make().confirm("Sure?")


def test_the_adapters_are_joined_here_and_share_one_session(make):
    from fairshare.aws.jobs import BatchJobs
    from fairshare.aws.logs import LogReader
    from fairshare.aws.objects import S3Store
    from fairshare.aws.provisioner import BatchProvisioner
    from fairshare.insight.wait import LOOPBACK_PACE

    context = make(endpoint_url="http://127.0.0.1:9")

    assert isinstance(context.jobs, BatchJobs)
    assert isinstance(context.provisioner, BatchProvisioner)
    assert isinstance(context.logs, LogReader)
    assert isinstance(context.objects, S3Store)
    assert context.session is context.session
    assert context.pace == LOOPBACK_PACE


def test_commands_in_a_hint_act_on_the_same_place(make):
    context = make(local=True, region="eu-west-1")
    hint = "`fairshare setup` makes it, `fairshare local start` starts it, `fairshare queue --local` and `ls` look"

    error = context.located(NotFoundError("no queue", hint=hint))

    assert error.hint == (
        "`fairshare setup --local --region eu-west-1` makes it, `fairshare local start` starts it, "
        "`fairshare queue --local --region eu-west-1` and `ls` look"
    )
    assert context.located(NotFoundError("no queue")).hint is None
