"""Command lines of lakeFS's own job on a sandbox.

What is deleted, what is said, and the exit code.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_dagster import submit
from lakegc_dagster.sandbox import Sandbox, objects, repositories
from lakegc_dagster.submit import job as submit_job
from lakegc_dagster.submit.job import read_keys, run
from lakegc_dagster.submit.keys import read_job
from spark_core.model import Repository
from spark_core.reference_job.summary import Summary
from spark_core.spark.java import submitted_properties
from tests.support import golden, recorded_server
from tests.support import moto_s3 as moto
from tests.support.moto_s3 import moto_s3
from tests.support.moved_repository import NAME
from tests.support.recorded_server import RecordedServer
from tests.support.upstream import upstream_scenario

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
GONE = {"file_2", "file_4", "file_5", "file_7", "file_9", "file_10"}


class Place:
    """A sandbox with the upstream scenario, told anew for every test under a name of its own."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.number = 0

    def tell(self):
        self.number += 1
        self.name = f"repo-{self.number}"
        self.story = upstream_scenario(
            self.sandbox, self.name, now=datetime.now(UTC) - timedelta(minutes=1)
        )
        return self.name

    def pairs(self, **more):
        sandbox = self.sandbox
        return {
            "spark.hadoop.lakefs.api.url": f"{sandbox.endpoint}/api/v1",
            "spark.hadoop.lakefs.api.access_key": sandbox.access_key_id,
            "spark.hadoop.lakefs.api.secret_key": sandbox.secret_access_key,
            "spark.hadoop.lakefs.debug.gc.uncommitted_min_age_seconds": "1",
            "spark.lakegc.storage.local_path": str(sandbox.blockstore),
            "spark.lakegc.defaults.repository_cache_seconds": "0",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.codegen.wholeStage": "false",
            **{f"spark.hadoop.lakefs.gc.{name}": text for name, text in more.items()},
        }

    def stage(self, path, address):
        """Stage an object by hand, at the physical address that it has."""
        sandbox, options = self.sandbox, dict.fromkeys(("content_type", "metadata"))
        objects.stage(
            sandbox.core,
            self.name,
            "main",
            path,
            physical_address=f"local://{sandbox.blockstore}/{self.name}/{address}",
            checksum="0" * 32,
            size_bytes=3,
            link=False,
            **options,
        )

    def left(self):
        """Paths of the story's files that are still in the store."""
        root = self.sandbox.blockstore / self.name
        return {file.path for file in self.story.files if (root / file.address).exists()}

    @property
    def everything(self):
        return {file.path for file in self.story.files}


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("submit") / "sandbox") as sandbox:
        yield Place(sandbox)


def test_one_command_marks_and_sweeps_and_its_secret_is_nowhere(place, capsys):
    name = place.tell()
    assert run([name], place.pairs()) == 0
    assert place.everything - place.left() == GONE
    said = capsys.readouterr()
    assert f"mark and sweep of {name}, as the reference job's keys say" in said.out
    assert re.search(r"deletion_report +6 rows", said.out)
    assert "What the sweep did" in said.out
    assert re.search(r"^worked   this process", said.out, re.MULTILINE)
    assert place.sandbox.secret_access_key not in said.out + said.err


def test_a_mark_alone_deletes_nothing_and_is_swept_by_its_id_without_what_came_back_to_life(
    place, capsys
):
    name = place.tell()
    written = {"spark.lakegc.defaults.write_reference_mark": "true"}
    assert run([name, "us-east-1"], place.pairs(do_sweep="false") | written) == 0
    assert place.left() == place.everything
    said = capsys.readouterr().out
    run_key = re.search(r"mark id  (\S+)  \(for lakefs.gc.mark_id\)", said)[1]
    mark_id = re.search(r" (\S+)  \(the same mark, for the reference job\)", said)[1]
    address = {file.path: file.address for file in place.story.files}["file_2"]
    place.stage("again", address)
    assert run([name], place.pairs(do_mark="false", mark_id=run_key)) == 0
    assert place.everything - place.left() == GONE - {"file_2"}
    report = place.sandbox.blockstore / name / f"_lakefs/retention/gc/reports/run_id={run_key}"
    rows = pq.read_table(report).to_pylist()
    kept = [(row["address"], row["error"]) for row in rows if row["outcome"] == "kept"]
    assert kept == [(address, "referenced again: staged")]
    assert {row["outcome"] for row in rows} == {"deleted", "kept"}

    # In the reference job's form it is verified by a new mark.
    objects.reset(place.sandbox.core, name, "main", "reset")
    assert run([name], place.pairs(do_mark="false", mark_id=mark_id)) == 0
    assert place.everything - place.left() == GONE


@pytest.mark.deep
def test_a_mark_of_the_reference_job_is_verified_before_it_is_swept(place, capsys):
    """It names one object that is dead, and one that is alive."""
    name = place.tell()
    by_path = {file.path: file.address for file in place.story.files}
    folder = place.sandbox.blockstore / name / "_lakefs/retention/gc/unified/ft6s0e1ksdufuaulm34g"
    (folder / "deleted").mkdir(parents=True)
    named = pa.table({"address": [by_path["file_2"], by_path["file_1"]]})
    pq.write_table(named, folder / "deleted/part-00000-x.snappy.parquet")
    summary = Summary(
        "ft6s0e1ksdufuaulm34g", True, "", "2026-11-21T07:05:39Z", "2026-11-21T07:05:38Z", 2
    )
    (folder / "summary.json").write_bytes(summary.to_json())
    assert run([name], place.pairs(do_mark="false", mark_id="ft6s0e1ksdufuaulm34g")) == 0
    assert place.everything - place.left() == {"file_2"}
    said = capsys.readouterr().out
    assert (
        "The mark ft6s0e1ksdufuaulm34g of the reference job names 2 addresses; lakegc's own would "
        "let go of 6 objects" in said
    )
    assert re.search(rf"{by_path['file_1']} +kept: ", said)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (
            {"do_mark": "false", "mark_id": "ft6s0e1ksdufuaulm34g"},
            "lakegc: failed: mark ft6s0e1ksdufuaulm34g does not exist in",
        ),
        ({"do_mark": "false", "mark_id": "../../data"}, "is not the id of a mark"),
        ({"do_mark": "false"}, "no mark to sweep was named"),
        ({"do_swep": "true"}, "did you mean lakefs.gc.do_sweep?"),
    ],
)
def test_what_the_reference_job_fails_on_ends_with_one_and_deletes_nothing(
    keys, problem, place, capsys
):
    name = place.tell()
    assert run([name], place.pairs(**keys)) == 1
    assert problem in capsys.readouterr().err
    assert place.left() == place.everything


def test_a_repository_without_rules_ends_with_one_as_it_does_there(place, capsys):
    with place.sandbox.core.lock:
        repositories.create(place.sandbox.core, "no-rules", "local://no-rules")
    assert run(["no-rules"], place.pairs()) == 1
    assert (
        "has no garbage-collection rules, which the reference job needs" in capsys.readouterr().err
    )


def test_a_mark_whose_checks_fail_ends_with_one_and_is_not_swept(place, capsys):
    name = place.tell()
    pairs = place.pairs() | {
        "spark.lakegc.defaults.max_expired_share": "0.01",
        "spark.lakegc.defaults.share_from_objects": "0",
    }
    assert run([name], pairs) == 1
    assert "expired_share_is_plausible" in capsys.readouterr().err
    assert place.left() == place.everything


def test_each_storage_of_a_server_is_reached_by_its_own_words(place):
    name = place.tell()
    pairs = place.pairs() | {
        "spark.hadoop.fs.s3a.access.key": "AKIAONE",
        "spark.hadoop.fs.s3a.secret.key": "hush",
        "spark.hadoop.fs.s3a.endpoint": "https://one.example",
        "spark.lakegc.storages.two.s3_endpoint": "https://two.example",
        "spark.lakegc.storages.files.server_path": "/srv/files",
    }
    job = read_job([name], {key.removeprefix("spark.hadoop."): text for key, text in pairs.items()})
    environment = submit_job._environment(job, lambda: pytest.fail("nothing needs Spark yet"))

    def reached(storage_id):
        return environment.storage_of(
            Repository(name, "s3://b/ns", "main", datetime.now(UTC), storage_id=storage_id)
        )

    common = reached("").store_options
    assert (common.s3_endpoint, common.s3_access_key_id) == ("https://one.example", "AKIAONE")
    assert reached("two").store_options == replace(common, s3_endpoint="https://two.example")
    assert (reached("files").server_path, reached("files").store_options) == ("/srv/files", common)


def test_what_the_user_said_is_told_from_hadoops_own_defaults_and_sparks_copies(spark):
    said = {
        "spark.hadoop.lakefs.gc.do_sweep": "false",
        "spark.hadoop.fs.s3a.endpoint": "https://s3.example.com",
        "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": "key",
        "spark.lakegc.defaults.flat": "true",
        "spark.executor.memory": "4g",
    }
    found = read_keys(*submitted_properties(said))
    # Hadoop has a default for the endpoint's style and for who gives credentials; nobody said
    # those.
    assert {key: text for key, text in found.items() if key != "spark.master"} == {
        "lakefs.gc.do_sweep": "false",
        "fs.s3a.endpoint": "https://s3.example.com",
        "fs.azure.account.key.lake.dfs.core.windows.net": "key",
        "spark.lakegc.defaults.flat": "true",
    }


@pytest.mark.deep
@pytest.mark.timeout(1_800)
def test_spark_submit_takes_the_command_of_the_reference_job_with_its_class(place, tmp_path):
    name = place.tell()
    words = [f"--conf={key}={value}" for key, value in place.pairs().items()]
    submitted = Path(sys.executable).with_name("spark-submit")
    command = [
        submitted,
        "--master=local[2]",
        "--class=io.treeverse.gc.GarbageCollection",
        *words,
        submit.__file__,
        name,
    ]
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=850,
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert place.everything - place.left() == GONE
    again = subprocess.run(
        [*command[:-1], "no-such-repository"],
        capture_output=True,
        text=True,
        check=False,
        timeout=850,
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert again.returncode == 1
    # spark-submit passes both streams of a Python program on as one.
    assert "lakegc: failed: " in again.stdout
    assert "no-such-repository" in again.stdout


def test_the_first_sweep_of_the_form_was_refused_with_remedies_that_nobody_can_type_there(
    spark, tmp_path, capsys
):
    root = golden.unpack(NAME, tmp_path)
    expired = golden.expected(NAME)["retention"][0]["expired_addresses"]
    with moto_s3() as s3:
        bucket, client = s3.bucket(), s3.client()
        with RecordedServer(NAME, root, storage_namespace=f"s3://{bucket}/ns") as recorded:
            for file in (path for path in root.rglob("*") if path.is_file()):
                key = f"ns/{file.relative_to(root)}"
                client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes())
            time.sleep(2)
            pairs = {
                "spark.hadoop.lakefs.api.url": f"{recorded.endpoint}/api/v1",
                "spark.hadoop.lakefs.api.access_key": recorded_server.ACCESS_KEY_ID,
                "spark.hadoop.lakefs.api.secret_key": recorded_server.SECRET_ACCESS_KEY,
                "spark.hadoop.lakefs.debug.gc.uncommitted_min_age_seconds": "1",
                "spark.hadoop.fs.s3a.endpoint": s3.endpoint,
                "spark.hadoop.fs.s3a.access.key": moto.ACCESS_KEY_ID,
                "spark.hadoop.fs.s3a.secret.key": moto.SECRET_ACCESS_KEY,
                "spark.lakegc.defaults.strangers": "collect",
                "spark.lakegc.defaults.inherited": "collect",
                "spark.lakegc.defaults.repository_cache_seconds": "0",
            }
            assert run([NAME], pairs) == 0
            first = capsys.readouterr().out
            assert run([NAME], pairs) == 0
            again = capsys.readouterr().out
        listed = client.list_objects_v2(Bucket=bucket, Prefix="ns/data/")["Contents"]
    left = {entry["Key"].removeprefix("ns/") for entry in listed}
    assert not left & set(expired["mark_before_stop_and_tags"])
    caution = f"Caution: this is the first sweep of {NAME}, and what it deletes could not come back"
    assert first.count(caution) == 1
    assert "spark.lakegc.defaults.quarantine=true moves objects aside for 30 days" in first
    assert "Caution: this is the first sweep" not in again


@pytest.mark.parametrize("reader", ["left", "full"])
def test_a_sweep_whose_output_nobody_takes_ends_and_says_what_was_done(place, tmp_path, reader):
    name = place.tell()
    pairs = place.pairs().items()
    conf = tmp_path / "spark-defaults.conf"
    conf.write_text("".join(f"{key} {value}\n" for key, value in pairs))
    reading, out = os.pipe() if reader == "left" else (None, os.open("/dev/full", os.O_WRONLY))
    if reading is not None:
        os.close(reading)
    answer = subprocess.run(
        [sys.executable, submit.__file__, name],
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdout=out,
        stderr=subprocess.PIPE,
        check=False,
        timeout=300,
        text=True,
    )
    os.close(out)
    assert place.everything - place.left() == GONE
    assert answer.returncode == (0 if reader == "left" else 1), answer.stderr
    assert "Traceback" not in answer.stderr
    assert f"job {name}, run 20" in answer.stderr
    assert "ended: deleted: 6 objects" in answer.stderr
    assert ("cannot be written" in answer.stderr) == (reader == "full")
