"""`lakegc retention` on a sandbox: versions are set, shown, ended, and never changed."""

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core import lakegc_keys
from spark_core.cli.main import main
from spark_core.errors import ChainError, CorruptTableError, IncompleteReadError, NotFoundError
from spark_core.model import RunKey
from spark_core.references.policies import parsing, versions
from spark_core.settings import load_settings
from spark_core.stored_runs import open_stored
from tests.support.command_line import WITH_REPO, settings_in_environment

KEY = "2026-01-01T00-00-00Z"
LOGS = '{"rules": [{"filter": {"prefix": "main/logs/"}, "expiration": {"all": {"weeks": 2}}}]}'
SCRATCH = "rules: [{filter: {prefix: users/}, expiration: {days: 3}}]\n"


@pytest.fixture
def sandbox(tmp_path):
    with Sandbox(tmp_path / "sandbox") as running:
        with running.core.lock:
            repositories.create(running.core, "repo", "local://repo")
        yield running


@pytest.fixture
def config(sandbox, tmp_path, monkeypatch):
    return settings_in_environment(sandbox, tmp_path, monkeypatch, WITH_REPO)


@pytest.fixture
def run(config):
    return open_stored(load_settings(config), "repo", RunKey.parse(KEY))


@pytest.fixture
def retention(config, tmp_path):
    def say(*words, document=None):
        if document is not None:
            file = tmp_path / "policy"
            file.write_text(document)
            words = (*words, "--policy-file", str(file))
        return CliRunner().invoke(main, ["retention", *words, "--config", str(config)])

    return say


def test_a_policy_is_set_shown_replaced_and_ended(retention, run):
    made = retention("set", "lakefs://repo/", document=LOGS)
    assert made.exit_code == 0, made.output
    assert "main/logs/" in made.stdout
    assert "all after 14 days" in made.stdout
    assert "reading them answers 410" in made.stdout
    first = versions.newest(run)
    assert (first.number, first.policy) == (1, parsing.parse(LOGS.encode(), name="x"))
    assert retention("set", "repo", document=SCRATCH).exit_code == 0
    assert json.loads(retention("get", "repo", "--json").stdout) == {
        "rules": [
            {
                "filter": {"prefix": "users/"},
                "status": "enabled",
                "expiration": {"all": {"days": 3}},
            }
        ]
    }
    assert "ended with version 3" in retention("delete", "repo").stdout
    assert versions.newest(run) is None
    assert "has no retention policy" in retention("get", "repo").stdout
    shown = retention("get", "repo", "--history").stdout
    assert [line.split()[0] for line in shown.splitlines()[2:] if line[0].isdigit()] == [
        "1",
        "2",
        "3",
    ]
    assert [each.content is None for each in versions.history(run.store)] == [False, False, True]


def test_each_version_is_an_object_that_stays_as_it_was(retention, run):
    retention("set", "repo", document=LOGS)
    before = run.store.read(lakegc_keys.policy_key(1))
    retention("set", "repo", document=SCRATCH)
    assert run.store.read(lakegc_keys.policy_key(1)) == before
    one, two = versions.history(run.store)
    assert one.policy_digest != two.policy_digest
    assert one.who == two.who
    assert one.since <= two.since


def test_the_same_document_in_other_words_is_no_new_version(retention, run):
    retention("set", "repo", document=LOGS)
    same = "rules: [{filter: {prefix: /main/logs/}, status: enabled, expiration: {weeks: 2}}]"
    assert "version 1" in retention("set", "repo", document=same).stdout
    assert len(versions.history(run.store)) == 1


def test_a_wrong_document_sets_nothing_and_is_told_with_its_places(retention, run):
    refused = retention("set", "repo", document='{"rules": [{"filter": {"prefix": "main"}}]}')
    assert refused.exit_code == 2
    assert "line 1, column 34, rules[0].filter.prefix" in refused.stderr
    assert "rules[0].expiration: missing" in refused.stderr
    assert versions.history(run.store) == []


def test_a_branch_that_does_not_exist_is_named(retention):
    assert "no branch named users" in retention("set", "repo", document=SCRATCH).stderr
    assert "no branch named" not in retention("set", "repo", document=LOGS).stdout


def test_there_is_nothing_to_end_without_a_policy(retention):
    refused = retention("delete", "repo")
    assert refused.exit_code == 1
    assert "repo has no retention policy" in refused.stderr
    assert "never had a retention policy" in retention("get", "repo", "--history").stdout


@pytest.mark.parametrize("name", ["lakefs://repo/main/", "", "lakefs://"])
def test_something_else_than_a_repository_is_no_repository(retention, name):
    assert retention("get", name).exit_code == 2


def test_of_two_people_who_set_a_version_at_once_one_is_told(run, monkeypatch):
    mine, theirs = (parsing.parse(text.encode(), name="x") for text in (LOGS, SCRATCH))
    versions.store_version(run, theirs, who="them")
    monkeypatch.setattr(versions, "history", lambda _: [])
    with pytest.raises(versions.SettingsError, match="set by them at the same time"):
        versions.store_version(run, mine, who="me")


def test_a_version_that_is_missing_is_no_end_of_the_history(retention, run):
    for text in (LOGS, SCRATCH, LOGS):
        retention("set", "repo", document=text)
    run.store.delete([lakegc_keys.policy_key(2)])
    with pytest.raises(IncompleteReadError, match="version 2 of the retention policy"):
        versions.newest(run)


def test_a_listing_that_ends_early_does_not_bring_an_older_version_back(retention, run):
    for text in (LOGS, SCRATCH):
        retention("set", "repo", document=text)

    class Short:
        def __getattr__(self, name):
            return getattr(run.store, name)

        def list(self, prefix):
            for batch in run.store.list(prefix):
                keys = batch.column("key").to_pylist()
                yield batch.filter(pa.array([key == lakegc_keys.policy_key(1) for key in keys]))

    with pytest.raises(IncompleteReadError, match="version 2"):
        versions.history(Short())


def test_an_edited_version_is_refused(retention, run):
    retention("set", "repo", document=LOGS)
    key = lakegc_keys.policy_key(1)
    run.store.put(key, run.store.read(key).replace(b'"weeks": 2', b'"weeks": 1'))
    with pytest.raises(CorruptTableError, match="edited or damaged"):
        versions.newest(run)


def test_something_else_among_the_versions_is_refused(run):
    run.store.put(f"{lakegc_keys.POLICIES}retention.json", LOGS.encode())
    with pytest.raises(CorruptTableError, match="nothing else belongs there"):
        versions.newest(run)


def test_a_policy_of_an_earlier_repository_of_that_name_does_not_count(run):
    version = versions.store_version(run, parsing.parse(LOGS.encode(), name="x"), who="me")
    other = versions.Version(**{**vars(version), "instance": "repo created 2020 in local://repo"})
    run.store.put(lakegc_keys.policy_key(1), other.to_json())
    with pytest.raises(ChainError, match="was set for 'repo created 2020"):
        versions.newest(run)
    assert versions.store_version(run, None, who="me").number == 2


def test_setting_a_policy_for_no_repository_fails(retention):
    assert retention("set", "other", document=LOGS).exit_code == 2


def test_ending_a_policy_twice_is_told(run):
    versions.store_version(run, parsing.parse(LOGS.encode(), name="x"), who="me")
    versions.store_version(run, None, who="me")
    with pytest.raises(NotFoundError):
        versions.store_version(run, None, who="me")


REMOVING = (
    '{"rules": [{"filter": {"prefix": "mian/logs/"}, "expiration": {"all": {"days": 3}}, '
    '"effect": "remove"}]}'
)


def test_a_branch_that_does_not_exist_is_named_by_all_that_takes_a_policy(retention):
    for words in (("set", "repo"), ("what-if", "repo")):
        told = retention(*words, document=REMOVING)
        assert told.stderr.startswith("There is no branch named mian: "), told.output
        assert "Did you mean main?" in told.stderr
