import json
import subprocess
import sys
from types import ModuleType

import pytest

from fairshare import __version__
from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.exit_codes import EXIT_CODES
from fairshare.cli.main import COMMANDS, Entry, run
from fairshare.model import FairshareError, InterruptedRunError

HEAVY = ("boto3", "botocore", "sagemaker", "moto", "psutil", "rich", "pydantic", "ruamel")
NEVER = ("boto3", "botocore", "sagemaker", "moto")


def imported_by(*argv):
    """Return the names of third-party packages that a command line imports."""
    code = "import sys\nfrom fairshare.cli.main import run\nrun(sys.argv[1:])\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    assert done.stdout
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("argv", ["--version", "--help"])
def test_version_and_help_import_nothing_heavy(argv):
    assert imported_by(argv).isdisjoint(HEAVY)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_imports_no_aws(name):
    assert imported_by(name, "--help").isdisjoint(NEVER)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example_and_exit_codes(capsys, name):
    assert run([name, "--help"]) == 0

    text = capsys.readouterr().out
    if not COMMANDS[name].group:
        assert f"    fairshare {name}" in text
        assert "Exit codes: 0 ok, 1 failed, 2 wrong usage" in text


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"fairshare {__version__}\n"


def test_nothing_and_help_list_every_command(capsys):
    assert run([]) == 0
    bare = capsys.readouterr().out
    assert run(["-h"]) == 0

    assert capsys.readouterr().out == bare
    for name, entry in COMMANDS.items():
        assert f"  {name}" in bare
        assert entry.summary in " ".join(bare.split())


def test_help_exit_codes_names_them_all(capsys):
    assert run(["help", "exit-codes"]) == 0

    text = capsys.readouterr().out
    assert all(meaning in text for meaning in EXIT_CODES.values())


def test_every_error_has_an_exit_code_with_a_meaning():
    def tree(kind):
        yield kind
        for child in kind.__subclasses__():
            yield from tree(child)

    assert {kind.exit_code for kind in tree(FairshareError)} <= EXIT_CODES.keys()


def test_help_on_a_command_is_its_help(capsys):
    assert run(["help", "wait"]) == 0
    assert capsys.readouterr().out.startswith("Usage: fairshare wait")


def test_help_on_nothing_known_suggests(capsys):
    assert run(["help", "exitcodes"]) == 2
    assert "did you mean exit-codes?" in capsys.readouterr().err


def test_a_mistyped_command_is_suggested(capsys):
    assert run(["qeue", "--all"]) == 2
    assert capsys.readouterr().err == (
        "error: there is no command 'qeue'\n  did you mean `fairshare queue`? `fairshare --help` lists them\n"
    )


def test_a_mistyped_flag_is_suggested(capsys):
    assert run(["queue", "--al"]) == 2

    text = capsys.readouterr().err
    assert text.startswith("error: No such option: --al")
    assert "--all" in text
    assert text.endswith("\n  `fairshare queue --help` shows how it is used\n")


@pytest.mark.parametrize(
    "argv", [["qeue", "-o", "json"], ["-o", "json", "queue", "--al"], ["job", "--output=json"], ["job", "-ojson"]]
)
def test_usage_errors_are_json_when_json_was_asked_for(capsys, argv):
    assert run(argv) == 2

    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["api_version"] == "fairshare/v1"
    assert (document["kind"], document["error"]["code"]) == ("Error", "Usage")
    assert captured.err == ""


def test_flags_may_stand_before_the_command_and_those_after_it_win(cli):
    assert cli("-o", "json", "queue") == 0
    assert json.loads(cli.out)["kind"] == "JobList"
    assert cli("-o", "json", "queue", "-o", "name") == 0
    assert cli.out == ""


def test_an_unexpected_error_is_one_line(cli, monkeypatch):
    monkeypatch.setattr(cli.batch, "snapshot", lambda queue: 1 / 0)

    assert cli("queue") == 1
    assert cli.err == (
        "error: internal error: ZeroDivisionError: division by zero\n"
        "  run it again with --debug to see where, and report it\n"
    )


def test_an_unexpected_error_shows_its_traceback_with_debug(cli, monkeypatch):
    monkeypatch.setattr(cli.batch, "snapshot", lambda queue: 1 / 0)

    assert cli("queue", "--debug") == 1
    assert "Traceback (most recent call last)" in cli.err
    assert "ZeroDivisionError" in cli.err


def test_no_traceback_without_debug(cli):
    assert cli("job", "nothing") == 4
    assert "Traceback" not in cli.err
    assert cli("job", "nothing", "--debug") == 4
    assert "Traceback" in cli.err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InterruptedRunError("interrupted")])
def test_ctrl_c_is_130(cli, monkeypatch, error):
    def interrupt(queue):
        raise error

    monkeypatch.setattr(cli.batch, "snapshot", interrupt)

    assert cli("queue") == 130
    assert cli.err == "interrupted\n"


def test_an_invalid_project_is_told_by_line(cli, project):
    (project / "fairshare.yaml").write_text("version: 1\nstack: s\nqueus: {}\n")

    assert cli("queue") == 2
    assert f"{project}/fairshare.yaml:3:1: error:" in cli.err
    assert "    3 | queus: {}" in cli.err
    assert cli("queue", "-o", "json") == 2
    assert json.loads(cli.out)["error"]["problems"][0]["line"] == 3


def test_sigterm_is_143(tmp_path):
    code = (
        "import signal, os, sys\n"
        "from fairshare.cli import main\n"
        "from fairshare.cli.context import AppContext\n"
        "AppContext.choose_queue = lambda *_: os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.argv = ['fairshare', 'queue']\n"
        "main.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (143, "terminated\n")


@pytest.mark.parametrize("argv", [["help", "exit-codes"], ["nonsense", "-o", "json"]])
def test_a_reader_that_leaves_is_no_error(argv):
    code = (
        "import os, sys\n"
        "reader, writer = os.pipe()\n"
        "os.dup2(writer, 1)\n"
        "os.close(reader)\n"
        "from fairshare.cli.main import main\n"
        "sys.argv[0] = 'fairshare'\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, timeout=20)

    assert done.stderr == ""
    assert done.returncode in (1, 2)


def test_python_m_fairshare_is_the_same_program():
    command = [sys.executable, "-m", "fairshare", "--version"]

    assert subprocess.run(command, capture_output=True, text=True).stdout == f"fairshare {__version__}\n"


def test_a_group_is_one_line_in_the_table_too(cli, monkeypatch):
    app = new_app("Boats.")
    module = ModuleType("boats")
    module.app = app
    sailed = []

    @command(app, examples=("fairshare boat sail --local",))
    def sail(context: AppContext) -> None:
        """Sail."""
        sailed.append(context.options.output)

    @command(app, name="list", examples=("fairshare boat list",))
    def list_boats(context: AppContext) -> None:
        """List."""

    monkeypatch.setitem(sys.modules, "boats", module)
    monkeypatch.setitem(COMMANDS, "boat", Entry("Boats", "boats", "things that float", group=True))

    assert cli("boat", "sail", "-o", "json") == 0
    assert sailed == ["json"]
    assert cli("boat", "--help") == 0
    assert "Boats." in cli.out
    assert cli("boat", "sial") == 2
    assert "No such command 'sial'. Did you mean 'sail'?" in cli.err
    assert cli("boat") == 2
    assert "error: Missing command.\n  `fairshare boat --help` shows how it is used" in cli.err
