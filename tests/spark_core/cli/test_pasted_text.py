"""Text that was pasted, cut or made by a program gets a sentence, never a traceback."""

import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from spark_core.cli.main import main
from tests.support.small_lakefs import SmallLakeFS
from tests.support.small_s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, Bucket, small_s3

SETTINGS = """\
[server]
endpoint = "{lakefs}"
{more}
[storage]
s3_endpoint = "{s3}"
s3_region = "us-east-1"
allow_http = true
max_retries = 0
[repositories.fine]
"""


@pytest.fixture
def lakegc(tmp_path):
    """The command line on a server and a store that are in order, under another environment."""
    with (
        small_s3(fine=Bucket()) as s3,
        SmallLakeFS({"fine": "s3://fine/ns"}) as lakefs,
    ):
        usual = {
            **lakefs.env,
            "LAKEGC_CONFIG": str(tmp_path / "lakegc.toml"),
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        }

        def say(*words, more="", **env):
            (tmp_path / "lakegc.toml").write_text(
                SETTINGS.format(lakefs=lakefs.endpoint, s3=s3.endpoint, more=more)
            )
            answer = CliRunner().invoke(main, words, env={**usual, **env})
            assert isinstance(answer.exception, SystemExit | None), answer.exception
            return answer

        yield say


PASTED = [
    ("\N{EN DASH}", r"U+2013 (EN DASH) as character 5"),
    ("\N{ZERO WIDTH SPACE}", r"U+200B (ZERO WIDTH SPACE) as character 5"),
    ("\N{NO-BREAK SPACE}", r"U+00A0 (NO-BREAK SPACE) as character 5"),
    ("\udce9", r"U+DCE9 (not printable) as character 5"),
    ("\n", r"U+000A (not printable) as character 5"),
]


@pytest.mark.parametrize(("character", "found"), PASTED)
@pytest.mark.parametrize("name", ["access_key_id", "secret_access_key"])
def test_a_key_with_a_character_that_no_key_has_is_named_and_not_shown(
    lakegc, name, character, found
):
    key = f"abcd{character}efghijkl"
    for command, code in (("runs", 2), ("doctor", 1)):
        answer = lakegc(command, "fine", **{f"LAKEGC_{name.upper()}": key})
        shown = " ".join(answer.output.split())
        assert answer.exit_code == code, answer.output
        assert f"{name} for http://127.0.0.1" in shown
        assert "abcd" not in shown
        assert "efgh" not in shown
        assert command == "doctor" or (found in shown and "Copy the key again" in shown)


def test_so_is_one_in_a_file_of_credentials(lakegc, tmp_path):
    (tmp_path / "keys.yaml").write_text(
        "credentials:\n  access_key_id: AKIA\N{EN DASH}KEY\n  secret_access_key: abcdefgh\n",
        encoding="utf-8",
    )
    none = {"LAKEGC_ACCESS_KEY_ID": "", "LAKEGC_SECRET_ACCESS_KEY": ""}
    answer = lakegc("runs", "fine", more='credentials_file = "keys.yaml"', **none)
    assert answer.exit_code == 2
    assert "has U+2013 (EN DASH) as character 5, and keys are plain ASCII" in answer.stderr


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("AWS_ACCESS_KEY_ID", "the access key id for S3"),
        ("AWS_SECRET_ACCESS_KEY", "the secret access key for S3"),
        ("AWS_SESSION_TOKEN", "the session token for S3"),
    ],
)
def test_so_is_one_of_the_store(lakegc, name, called):
    answer = lakegc("hold", "list", "fine", **{name: "abcd\udce9efghijkl"})
    assert answer.exit_code == 2
    assert f"{called} has U+DCE9 (not printable) as character 5" in answer.stderr
    assert "abcd" not in answer.output


@pytest.mark.parametrize(
    "command", [("mark", "fine", "--run"), ("report", "fine", "--run"), ("sweep", "fine", "--run")]
)
@pytest.mark.parametrize("key", ["0001-01-01T00-00-00Z", "1969-12-31T23-59-59Z"])
def test_a_run_key_before_all_time_is_refused(lakegc, command, key):
    answer = lakegc(*command, key)
    assert answer.exit_code == 2
    assert f"run key '{key}' is before 1970, when lakeFS's time begins" in answer.stderr


def test_the_first_run_key_is_looked_for_like_any_other(lakegc):
    answer = lakegc("report", "fine", "--run", "1970-01-01T00-00-00Z")
    assert answer.exit_code == 1
    assert "there is no run 1970-01-01T00-00-00Z of fine" in answer.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("hold", "add", "fine", "imports", "--prefix", "data/\udcff/"),
        ("hold", "add", "fine", "imports", "--prefix", "data/x/", "--why", "caf\udce9"),
        ("explain", "fine", "caf\udce9"),
        ("certificate", "fine", "2026-01-01T00-00-00Z", "--path", "caf\udce9/"),
        ("runs", "caf\udce9"),
        ("caf\udce9",),
    ],
)
def test_a_word_that_is_not_utf_8_is_refused(lakegc, words):
    answer = lakegc(*words)
    assert answer.exit_code == 2
    assert re.search(r"\\udc.*is not text in UTF-8\. Nothing was done", answer.stderr)


def test_so_it_is_when_a_shell_passes_its_bytes():
    command = [sys.executable, "-m", "spark_core.cli.main", "hold", "add", "fine", "imports"]
    answer = subprocess.run(
        [*command, "--prefix", b"data/\xff/"],
        check=False,
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 2
    assert r"data/\udcff/ is not text in UTF-8" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_word_in_any_language_is_text(lakegc):
    answer = lakegc("hold", "add", "fine", "imports", "--prefix", "data/größe-大きさ/")
    assert "there is no object below 'data/größe-大きさ/'" in answer.stderr


DEEP = [(200, "a depth that Python itself reads"), (100_000, "a depth that ends its stack")]


@pytest.mark.parametrize("depth", [depth for depth, _ in DEEP], ids=[why for _, why in DEEP])
class TestDeepNesting:
    """Brackets in brackets: a file that a program wrote wrongly, or somebody's joke."""

    def test_in_rules(self, lakegc, tmp_path, depth):
        file = tmp_path / "rules.json"
        file.write_text('{"default_retention_days": ' + "[" * depth + "]" * depth + "}")
        answer = lakegc("rules", "set", "fine", "--file", str(file))
        assert answer.exit_code == 2
        assert (
            f"{file} is not JSON that can be used (values are nested deeper than 100)"
            in answer.stderr
        )

    # Reading YAML ends at the outer limit, before the inner one is looked at.
    @pytest.mark.parametrize(("begin", "limit"), [("- ", 100), ('{"a": ', 20)])
    def test_in_a_policy(self, lakegc, tmp_path, depth, begin, limit):
        file = tmp_path / "policy"
        file.write_text(begin * min(depth, 2_000) + "1")
        answer = lakegc("retention", "set", "fine", "--policy-file", str(file))
        assert answer.exit_code == 2
        assert f"values are nested deeper than {limit}" in answer.stderr

    def test_in_settings(self, lakegc, depth):
        answer = lakegc("runs", "fine", more="tries = " + "[" * depth + "]" * depth)
        assert answer.exit_code == 2
        assert "is not TOML: values are nested deeper than 100" in answer.stderr

    def test_in_a_variable_of_the_settings(self, lakegc, depth):
        answer = lakegc(
            "runs", "fine", LAKEGC__SERVER__READ_TIMEOUT_SECONDS="[" * depth + "]" * depth
        )
        assert answer.exit_code == 2
        assert "READ_TIMEOUT_SECONDS: [server] read_timeout_seconds" in answer.stderr

    def test_in_a_certificate(self, lakegc, tmp_path, depth):
        file = tmp_path / "certificate.json"
        head = '{"kind": "lakegc certificate", "format": 1, "gone": '
        file.write_text(head + "[" * depth + "]" * depth + "}")
        answer = lakegc("verify", str(file))
        assert answer.exit_code == 3
        assert f"{file} is not a certificate of lakegc" in answer.stderr
