"""Repositories of every state, in namespaces of every shape, by engine and command line."""

import re
import uuid

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from spark_core.cli.main import main
from spark_core.errors import NotFoundError, RepositoryStateError
from tests.support.live_collection import collect, require_exactly_the_dead_gone
from tests.support.pipeline import mark_only

pytestmark = pytest.mark.spark


def _with_garbage(repository):
    """Write something of each kind; returns what a collection takes."""
    repository.rules(3, main=3)
    expired = repository.upload("main", "a", b"expired")
    repository.commit("main", days_ago=30)
    repository.upload("main", "a", b"the first commit beyond three days")
    repository.commit("main", days_ago=20)
    repository.upload("main", "a", b"head")
    repository.commit("main", days_ago=1)
    repository.link("main", "linked", b"linked")
    dropped = repository.upload("main", "b", b"dropped")
    repository.delete("main", "b")
    return {expired, dropped}


@pytest.mark.parametrize(
    "shape",
    [
        {"slash": "/"},
        {"prefix": "a/deep/prefix/"},
        {"prefix": "with.dots_and-dashes/", "slash": "/"},
    ],
)
def test_a_namespace_of_any_shape_is_collected(make, spark, shape):
    repository = make(**shape)
    gone = _with_garbage(repository)
    before = set(repository.store.keys())
    done = require_exactly_the_dead_gone(repository, spark, 3, {"main": 3})
    assert done.gone == gone
    # Beside the objects of the mark nothing is touched; what is new are lakegc's and the server's
    # own tables.
    after = set(repository.store.keys())
    assert before - after == gone
    assert all(key.startswith("_lakefs/") for key in after - before)


def test_a_namespace_at_a_buckets_root_is_collected(make, server, spark):
    name = f"lakegc-live-{uuid.uuid4().hex[:12]}"
    if not server.is_local:
        try:
            server.s3.create_bucket(Bucket=name)
        except ClientError as refused:
            pytest.skip(f"no bucket may be made here: {refused}")
    repository = make(namespace=f"{server.root.partition('://')[0]}://{name}")
    gone = _with_garbage(repository)
    assert require_exactly_the_dead_gone(repository, spark, 3, {"main": 3}).gone == gone


def test_files_that_somebody_put_into_the_namespace_are_left_alone_outside_data(repository, spark):
    foreign = ("README.txt", "dummy", "other/file", "_lakefs/by-hand", "f" * 32)
    for key in foreign:
        repository.store.put(key, b"not of lakeFS")
    gone = _with_garbage(repository)
    assert require_exactly_the_dead_gone(repository, spark, 3, {"main": 3}).gone == gone
    assert set(foreign) <= set(repository.store.keys())
    # Only when asked for, and only names of exactly that form.
    assert collect(repository, spark, flat=True).gone == {"f" * 32}


def test_files_that_lakefs_did_not_name_are_left_alone_below_data_unless_they_are_asked_for(
    repository, spark
):
    strangers = {"data/stray", "data/!ab/c/slice/object"}
    for key in strangers:
        repository.store.put(key, b"below data/, and in no commit")
    assert collect(repository, spark).gone == set()
    assert collect(repository, spark, strangers="collect").gone == strangers


def test_a_bare_repository_is_refused(make, spark):
    repository = make(bare=True)
    repository.store.put("data/slice/object", b"of an earlier repository")
    with pytest.raises(RepositoryStateError, match=f"{repository.name} has no branch: it is bare"):
        mark_only(repository.server.open_run(spark, repository.name))
    assert repository.lies_there("data/slice/object")


def test_a_read_only_repository_is_refused(make, spark):
    repository = make(read_only=True)
    repository.call(
        "POST", "/branches/main/objects", query={"path": "a", "force": "true"}, body=b"a"
    )
    repository.call("DELETE", "/branches/main/objects", query={"path": "a", "force": "true"})
    before = repository.data()
    with pytest.raises(RepositoryStateError, match=f"{repository.name} is read-only"):
        mark_only(repository.server.open_run(spark, repository.name))
    assert repository.data() == before != set()


def test_a_repository_that_never_was_is_not_found(server, spark):
    with pytest.raises(NotFoundError, match="lakegc-live-never-was"):
        server.open_run(spark, "lakegc-live-never-was")


SETTINGS = """\
throwaway_repositories = ["{name}"]
[server]
endpoint = "{endpoint}"
[storage]
{storage}
[defaults]
mode = "mark"
[repositories.{name}]
min_age_hours = 0
allow_unsafe_min_age = true
quarantine = false
"""


def test_the_command_line_marks_reports_and_sweeps(repository, server, spark, tmp_path):
    gone = _with_garbage(repository)
    if server.is_local:
        storage = f'local_path = "{server.local_path}"'
        if server.server_path:
            storage += f'\nserver_path = "{server.server_path}"'
    else:
        storage = (
            f's3_endpoint = "{server.s3_endpoint}"\nallow_http = true' if server.s3_endpoint else ""
        )
    config = tmp_path / "lakegc.toml"
    config.write_text(
        SETTINGS.format(name=repository.name, endpoint=server.endpoint, storage=storage)
    )
    environment = {
        "LAKEGC_ACCESS_KEY_ID": server.access_key_id,
        "LAKEGC_SECRET_ACCESS_KEY": server.secret_access_key,
        "LAKEGC_CONFIG": str(config),
    }
    sweep = {f"LAKEGC__REPOSITORIES__{repository.name.upper()}__MODE": "sweep"}

    def lakegc(*words, **more):
        answer = CliRunner().invoke(main, words, env={**environment, **more})
        assert server.secret_access_key not in answer.output
        return answer

    repository.settle()
    before = repository.data()
    marked = lakegc("mark", repository.name)
    assert marked.exit_code == 0, marked.output
    assert f": {len(gone)} objects" in marked.stdout
    assert repository.data() == before
    key = re.search(r"run (\d{4}-\S+Z)", marked.stdout)[1]
    assert lakegc("sweep", repository.name, "--run", key).exit_code == 3
    assert repository.data() == before

    swept = lakegc("sweep", repository.name, "--run", key, **sweep)
    assert swept.exit_code == 0, swept.output
    assert repository.data() == before - gone
    assert repository.require_readable(["main"]) == 2
    told = lakegc("report", repository.name)
    assert told.exit_code == 0, told.output
    assert f"{len(gone)} objects" in told.stdout
    assert "unsafe" in told.stdout
