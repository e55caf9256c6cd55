"""What `lakegc mark` and `lakegc sweep` show of stores and run keys that cannot be used."""

import pytest
from click.testing import CliRunner

from spark_core.cli.main import main
from tests.support.scripted_s3 import error
from tests.support.small_lakefs import SmallLakeFS
from tests.support.small_s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, Bucket, small_s3

pytestmark = pytest.mark.spark

REPOSITORIES = ("absent", "expired")
SETTINGS = """\
throwaway_repositories = ["expired"]
[server]
endpoint = "{lakefs}"
[storage]
s3_endpoint = "{s3}"
s3_region = "us-east-1"
allow_http = true
max_retries = 0
[repositories.absent]
[repositories.expired]
mode = "sweep"
"""


@pytest.fixture
def lakegc(tmp_path, spark):
    """The command line on a server whose repositories lie in buckets that cannot be used."""
    with (
        small_s3(expired=Bucket(error(400, "ExpiredToken"))) as s3,
        SmallLakeFS({name: f"s3://{name}/ns" for name in REPOSITORIES}) as lakefs,
    ):
        config = tmp_path / "lakegc.toml"
        config.write_text(SETTINGS.format(lakefs=lakefs.endpoint, s3=s3.endpoint))
        env = {
            **lakefs.env,
            "LAKEGC_CONFIG": str(config),
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        }
        yield lambda *words: CliRunner().invoke(main, words, env=env)


@pytest.mark.slow
def test_each_repository_says_what_is_wrong_with_its_store_and_what_to_do(lakegc):
    answer = lakegc("mark")
    assert answer.exit_code == 2, "a missing bucket is a setting to correct"
    lines = sorted(answer.stderr.splitlines(), key=lambda line: "expired/ns" in line)
    assert len(lines) == len(REPOSITORIES)
    assert "of s3://absent/ns/: there is no such bucket. Look at" in lines[0]
    assert "of s3://expired/ns/: the store refuses (HTTP 400 ExpiredToken)." in lines[1]
    assert "whether they have expired" in lines[1]
    assert not [text for text in (SECRET_ACCESS_KEY, "Traceback") if text in answer.output]
    doctor = " ".join(lakegc("doctor").stdout.split())
    assert doctor.count("✗ store: list") == len(REPOSITORIES)


def test_a_sweep_in_a_store_that_refuses_says_so(lakegc):
    answer = lakegc("sweep", "expired", "--run", "2026-01-01T00-00-00Z")
    assert answer.exit_code == 1
    assert "the store refuses (HTTP 400 ExpiredToken)" in answer.stderr
