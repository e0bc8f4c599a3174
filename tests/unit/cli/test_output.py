import json

import pytest

from fairshare.cli.output import Output, OutputFormat
from fairshare.model import UsageError

DATA = {"jobs": [{"job_id": "a", "n": 1, "reason": "x\x1b[2J"}, {"job_id": "b", "n": None, "reason": "1,2"}]}


def show(capsys, format, data=DATA, rows="jobs"):
    Output(format).show("JobList", data, text=lambda width: f"as text, {width}", rows=rows, name="job_id")
    return capsys.readouterr().out


def test_json_is_versioned(capsys):
    document = json.loads(show(capsys, OutputFormat.JSON))

    assert document == {"api_version": "fairshare/v1", "kind": "JobList", **DATA}
    assert next(iter(document)) == "api_version"


def test_c47_json_keeps_the_data_escaped(capsys):
    text = show(capsys, OutputFormat.JSON, {"jobs": [{"job_id": "\u202e\x1b"}]})

    assert '"\\u202e\\u001b"' in text


def test_yaml_reads_back_to_the_same_document(capsys):
    from ruamel.yaml import YAML

    assert YAML(typ="safe").load(show(capsys, OutputFormat.YAML)) == {
        "api_version": "fairshare/v1",
        "kind": "JobList",
        **DATA,
    }


def test_csv_and_name_print_the_rows(capsys):
    assert show(capsys, OutputFormat.CSV) == 'job_id,n,reason\na,1,x\\x1b[2J\nb,,"1,2"\n'
    assert show(capsys, OutputFormat.NAME) == "a\nb\n"


def test_an_empty_list_prints_nothing_as_name(capsys):
    assert show(capsys, OutputFormat.NAME, {"jobs": []}) == ""


@pytest.mark.parametrize("format", [OutputFormat.CSV, OutputFormat.NAME])
def test_what_is_no_list_cannot_be_csv(capsys, format):
    with pytest.raises(UsageError) as caught:
        show(capsys, format, rows=None)

    assert caught.value.message == f"this answer cannot be printed as {format}"
    assert caught.value.hint == "use -o table, json or yaml"


def test_table_is_told_its_width(capsys):
    assert show(capsys, OutputFormat.TABLE) == "as text, None\n"


def test_talk_goes_to_stderr_and_is_safe(capsys):
    out = Output()
    out.talk("one\ntwo \x1b[2J")
    out.suggest("fairshare queue")

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "one\ntwo \\x1b[2J\nNext: fairshare queue\n"


def test_programs_are_not_told_what_to_do_next(capsys):
    Output(OutputFormat.JSON).suggest("fairshare queue")

    assert capsys.readouterr().err == ""
