"""The doctor finds what is wrong with servers, repositories and stores, and says what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from spark_core import errors
from spark_core.addresses.namespace import Namespace
from spark_core.clocks import ClockReading
from spark_core.doctor import QUESTIONS, Examination, Finding, Question, examine, found_by
from spark_core.doctor.credentials import credential_source
from spark_core.doctor.questions import ask as ask_one
from spark_core.errors import SettingsError
from spark_core.model import Repository
from spark_core.phases import NOTHING_DELETED, add_state
from spark_core.run import RunOptions, Storage
from spark_core.storage import StoreOptions
from tests.support.clock import FakeClock
from tests.support.small_lakefs import CREATED, DENIED, SmallLakeFS

REPOSITORY = "/repositories/repo"
NO_ENDPOINT = (404, {"message": "invalid API endpoint"})


@pytest.fixture
def blockstore(tmp_path):
    (tmp_path / "repo/_lakefs").mkdir(parents=True)
    (tmp_path / "repo/_lakefs/dummy").write_bytes(b"")
    return tmp_path


@pytest.fixture
def lakefs():
    with SmallLakeFS({"repo": "local://repo"}) as server:
        server.blockstore_type = "local"
        yield server


@pytest.fixture
def examine_repo(lakefs, blockstore):
    """Examine `repo`; what was found, by what was looked at."""

    def examined(
        *, storages=None, local_path=blockstore, spark=None, **options
    ) -> dict[str, Finding]:
        examination = Examination(
            "repo",
            lakefs.options,
            Storage(StoreOptions(local_path=str(local_path)), "/srv/blocks"),
            RunOptions(**options),
            storages=storages,
            spark=spark,
            clock=FakeClock(datetime.now(UTC)),
        )
        return {f"{probe.about}: {probe.name}": probe for probe in examine(examination)}

    return examined


def failed(probes):
    return [name for name, probe in probes.items() if probe.passed is False]


def unknown(probes):
    return [name for name, probe in probes.items() if probe.passed is None]


def test_where_all_is_in_order_nothing_fails(examine_repo):
    probes = examine_repo()
    assert failed(probes) == []
    assert unknown(probes) == ["repository: imports elsewhere"]
    assert not [probe for probe in probes.values() if probe.passed and probe.next_step]


def test_nothing_of_the_server_is_changed_and_nothing_heavy_is_asked_of_it(examine_repo, lakefs):
    examine_repo()
    assert {asked.method for asked in lakefs.calls} == {"GET", "POST"}
    (posted,) = [asked for asked in lakefs.calls if asked.method == "POST"]
    assert posted.path == f"{REPOSITORY}/gc/prepare_uncommited"
    assert posted.body["continuation_token"] == "lakegc asks for the permission only"
    assert len(lakefs.calls) < 20


def test_every_question_is_asked_whatever_the_others_found(examine_repo, lakefs):
    whole = list(examine_repo())
    lakefs.answer_with("GET", ".*", (503, {"message": "slow down"}))
    broken = examine_repo()
    assert list(broken) == whole
    assert failed(broken) == ["server: answers"]
    assert (
        broken["repository: description"].found
        == "not looked at: the server does not take the keys"
    )
    assert broken["machine: Java"].passed is not None


@pytest.mark.parametrize(
    ("path", "answer", "expected"),
    [
        ("", (404, {"message": "repository not found"}), ("description", "lakectl repo list")),
        (
            "",
            (410, {"message": "repository in deletion"}),
            ("description", "Take it out of the settings"),
        ),
        (
            "/branches",
            (200, {"pagination": {"has_more": False}, "results": []}),
            ("branches", "wait ten seconds"),
        ),
        (
            "/settings/gc_rules",
            (200, {"default_retention_days": -5, "branches": None}),
            ("rules", "lakegc rules set"),
        ),
        ("/settings/gc_rules", DENIED, ("rules", "the user's policies")),
        ("/tags", DENIED, ("tags", "the user's policies")),
        ("/refs/main/objects/ls", DENIED, ("entries", "the user's policies")),
        (
            "/metadata/range/.*",
            (200, {"location": f"data/tables/{'0' * 64}"}),
            ("tables", "cannot be collected"),
        ),
        ("/gc/prepare_commits/status", DENIED, ("prepare_commits", "the user's policies")),
        ("/gc/prepare_uncommited", DENIED, ("prepare_uncommitted", "the user's policies")),
        ("/dump", DENIED, ("refs dump", "the user's policies")),
    ],
)
def test_what_is_wrong_with_the_repository_is_found_where_it_is(
    examine_repo, lakefs, path, answer, expected
):
    name, text = expected
    for method in ("GET", "POST"):
        lakefs.answer_with(method, REPOSITORY + path, answer)
    probes = examine_repo()
    assert failed(probes) == [f"repository: {name}"]
    assert text in probes[f"repository: {name}"].next_step


@pytest.mark.parametrize(
    ("path", "name", "action"),
    [
        (
            "/gc/prepare_commits/status",
            "prepare_commits",
            "retention:PrepareGarbageCollectionCommits",
        ),
        (
            "/gc/prepare_uncommited",
            "prepare_uncommitted",
            "retention:PrepareGarbageCollectionUncommitted",
        ),
        ("/dump", "refs dump", "fs:ListBranches, fs:ListTags and fs:ListCommits"),
        ("/settings/gc_rules", "rules", "retention:GetGarbageCollectionRules"),
        ("/tags", "tags", "fs:ListTags"),
    ],
)
def test_a_lacking_permission_is_named(examine_repo, lakefs, path, name, action):
    for method in ("GET", "POST"):
        lakefs.answer_with(method, REPOSITORY + path, DENIED)
    assert (
        f"their user lacks the action {action}:" in examine_repo()[f"repository: {name}"].next_step
    )


def test_a_rule_for_a_branch_that_is_not_there_is_pointed_out(examine_repo, lakefs):
    rules = {"default_retention_days": 14, "branches": [{"branch_id": "mian", "retention_days": 3}]}
    lakefs.answer_with("GET", f"{REPOSITORY}/settings/gc_rules", (200, rules))
    probe = examine_repo()["repository: rules"]
    assert probe.passed is True, "a branch that was deleted is no fault of the set-up"
    assert probe.found.endswith(
        "There is no branch named mian: such a rule does nothing until there is one. "
        "Did you mean main?"
    )
    assert probe.figures["rules_without_branch"] == ["mian"]


def test_a_read_only_repository_and_one_of_another_kind_of_store_are_found(examine_repo, lakefs):
    described = {**lakefs._described("repo"), "read_only": True}
    lakefs.answer_with("GET", REPOSITORY, (200, described))
    lakefs.blockstore_type = "s3"
    assert failed(examine_repo()) == ["repository: kind of store", "repository: state"]


def test_a_namespace_that_another_repository_shares_is_found(examine_repo, lakefs):
    lakefs.namespaces["other"] = "local://repo/inner"
    probe = examine_repo()["repository: own namespace"]
    assert probe.passed is False
    assert (
        "repositories repo (local://repo) and other (local://repo/inner) share a storage namespace"
        in probe.found
    )


@pytest.mark.parametrize(
    ("hot", "apart"), [("https://hot.example.com", True), ("https://cold.example.com", False)]
)
def test_equal_namespaces_of_two_storages_are_shared_unless_their_endpoints_differ(
    lakefs, hot, apart
):
    both = [
        Repository(name, "s3://b/ns", "main", datetime.now(UTC), storage_id=name)
        for name in ("cold", "hot")
    ]
    storages = {
        name: Storage(StoreOptions(s3_endpoint=endpoint))
        for name, endpoint in (("cold", "https://cold.example.com"), ("hot", hot))
    }
    examination = Examination(
        "cold", lakefs.options, Storage(StoreOptions()), RunOptions(), storages=storages
    )
    examination.repository, examination.namespace = both[0], Namespace.parse("s3://b/ns")
    examination.server = SimpleNamespace(repositories=lambda: both)
    (question,) = (one for one in QUESTIONS if one.name == "own namespace")
    assert ask_one(question, examination).passed is apart


def test_a_minimum_age_below_the_grace_period_is_found_and_an_accepted_one_is_still_shown(
    examine_repo,
):
    refused = examine_repo(min_age=timedelta(hours=1))["repository: minimum age"]
    assert refused.passed is False
    assert "Set min_age_hours to at least that" in refused.next_step
    accepted = examine_repo(min_age=timedelta(hours=1), allow_unsafe_min_age=True)[
        "repository: minimum age"
    ]
    assert accepted.passed is False
    assert "allow_unsafe_min_age accepts" in accepted.found


def test_the_clock_is_compared_with_the_limit_that_a_mark_would_use(examine_repo, monkeypatch):
    for least, found in ((300, []), (301, ["store: clock"])):
        ahead = ClockReading(timedelta(seconds=least), timedelta(seconds=least + 1))
        monkeypatch.setattr("spark_core.run.preconditions.read_clock", lambda _, ahead=ahead: ahead)
        assert failed(examine_repo()) == found


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.84.0", "1.84.0"),
        ("1.75.0", "1.75.0"),
        (
            "1.74.9",
            "1.74.9: it says 500 instead of 404 for what it does not have. lakegc does without",
        ),
        ("1.71.0", "has no asynchronous prepare_commits"),
        ("1.2.0", "has no asynchronous refs dump"),
        ("dev", "dev, which names no release"),
    ],
)
def test_an_old_server_is_told_what_it_lacks(examine_repo, lakefs, version, text):
    lakefs.version = version
    probe = examine_repo()["server: version"]
    assert probe.passed
    assert text in probe.found
    assert ("it has" in probe.found or "it says" in probe.found) == (
        version < "1.75" and version != "dev"
    )


def test_calls_that_an_old_server_lacks_are_not_taken_for_a_missing_permission(
    examine_repo, lakefs
):
    for path in ("/gc/prepare_commits/status", "/dump"):
        lakefs.answer_with("GET", REPOSITORY + path, NO_ENDPOINT)
    probes = examine_repo()
    assert failed(probes) == []
    assert "only the synchronous call is there" in probes["repository: prepare_commits"].found
    assert unknown(probes) == [
        "repository: imports elsewhere",
        "repository: prepare_commits",
        "repository: refs dump",
    ]
    lakefs.answer_with("POST", f"{REPOSITORY}/gc/prepare_uncommited", NO_ENDPOINT)
    assert "Upgrade the server" in examine_repo()["repository: prepare_uncommitted"].next_step


def test_a_500_where_a_permission_was_asked_for_is_no_consent(examine_repo, lakefs):
    lakefs.answer_with("GET", f"{REPOSITORY}/dump", (500, {"message": "boom"}))
    probe = examine_repo()["repository: refs dump"]
    assert probe.passed is False
    assert "answers 500 (boom)" in probe.found


def test_a_result_where_none_can_be_is_no_consent(examine_repo, lakefs):
    lakefs.answer_with(
        "GET", f"{REPOSITORY}/dump", (200, {"id": "DR00000000000000000000", "done": True})
    )
    assert failed(examine_repo()) == ["repository: refs dump"]


def test_a_local_path_that_is_not_the_servers_is_found(examine_repo, lakefs, blockstore):
    (blockstore / "repo/_lakefs/dummy").unlink()
    table = "a" * 64
    commit = {
        "id": "c" * 64,
        "parents": [],
        "creation_date": CREATED,
        "meta_range_id": table,
        "version": 1,
    }
    found = {"pagination": {"has_more": False, "next_offset": ""}, "results": [commit]}
    lakefs.answer_with("GET", f"{REPOSITORY}/refs/main/commits", (200, found))
    probes = examine_repo()
    assert failed(probes) == ["store: read"]
    assert (
        f"nor the table of main's head, _lakefs/{table}: this is not the place"
        in probes["store: read"].found
    )
    assert "Look at local_path" in probes["store: read"].next_step
    assert probes["store: write"].found.endswith(
        "so it may be the wrong one; nothing was written to it"
    )
    assert not (blockstore / "repo/_lakefs/retention").exists()
    (blockstore / f"repo/_lakefs/{table}").write_bytes(b"a table")
    probes = examine_repo()
    assert failed(probes) == []
    assert probes["store: read"].found == "the table of main's head is there"


def test_a_local_path_without_anything_that_the_server_wrote_is_found(examine_repo, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    probes = examine_repo(local_path=tmp_path / "elsewhere")
    assert failed(probes) == ["store: list"]
    assert "a mount may have gone away" in probes["store: list"].found
    assert "local_path" in probes["store: list"].next_step
    assert not list((tmp_path / "elsewhere").iterdir())
    root = tmp_path / "elsewhere" / "repo"
    root.mkdir()
    probes = examine_repo(local_path=tmp_path / "elsewhere")
    assert failed(probes) == ["store: read"]
    assert "has neither _lakefs/dummy" in probes["store: read"].found
    assert not list(root.iterdir())


def test_a_local_path_that_is_not_there_keeps_the_store_from_being_looked_at(
    examine_repo, tmp_path
):
    probes = examine_repo(local_path=tmp_path / "absent")
    assert failed(probes) == ["store: opens"]
    assert "Set it to the directory where this machine sees" in probes["store: opens"].next_step
    assert probes["store: list"].found == "not looked at: the store could not be opened"


def test_each_of_several_storages_is_reached_by_its_own_words(
    examine_repo, lakefs, blockstore, tmp_path
):
    described = {**lakefs._described("repo"), "storage_id": "cold"}
    lakefs.answer_with("GET", REPOSITORY, (200, described))
    cold = Storage(StoreOptions(local_path=str(blockstore)), "/srv/cold")
    probes = examine_repo(local_path=tmp_path / "absent", storages={"cold": cold})
    assert failed(probes) == []
    assert "storage cold" in probes["repository: description"].found


@pytest.mark.slow
@pytest.mark.spark
def test_spark_is_started_only_when_asked_for_and_its_executors_run_lakegc(examine_repo, spark):
    assert "machine: Spark" not in examine_repo()
    probe = examine_repo(spark=lambda: spark)["machine: Spark"]
    assert probe.passed
    assert probe.found == f"{spark.version} on local[2]; its executors run lakegc"


def test_a_spark_that_does_not_start_is_found(examine_repo):
    def broken():
        raise RuntimeError("Java gateway process exited before sending its port number")

    probe = examine_repo(spark=broken)["machine: Spark"]
    assert probe.passed is False
    assert "Java gateway process exited" in probe.found
    assert "Look at [spark] in the settings" in probe.next_step


def test_an_error_that_nobody_foresaw_is_a_finding_and_shows_only_its_name():
    def ask(_examination):
        raise ConnectionResetError("reset while sending S3CRET")

    probe = ask_one(Question("store", "list", ask), None)
    assert probe.passed is False
    assert probe.found == "an error that lakegc does not know, builtins.ConnectionResetError"
    assert "S3CRET" not in f"{probe}"


class TestTellingErrors:
    """What an error's message is taken apart into."""

    @pytest.mark.parametrize(
        ("said", "found", "next_step"),
        [
            (("x of y: 3 found", "Do that. And that."), "x of y: 3 found", "Do that. And that."),
            (("it says: Gone. Away. So", "Set both."), "it says: Gone. Away. So", "Set both."),
            (
                ("the URL https://x.y/z is wrong there. Correct it.",),
                "the URL https://x.y/z is wrong there",
                "Correct it.",
            ),
            (("wrong",), "wrong", "Mend that, and ask again."),
        ],
    )
    def test_found_and_next_step_are_told_apart(self, said, found, next_step):
        answer = found_by(add_state(errors.TransientError(*said), NOTHING_DELETED))
        assert (answer.text, answer.next_step) == (found, next_step)
        assert answer.passed is False
        assert answer.figures == {"error": "TransientError"}


class TestCredentialSources:
    """Where credentials come from is said, and never what they are."""

    OPTIONS = StoreOptions()

    @pytest.mark.parametrize(
        ("env", "text"),
        [
            (
                {"AZURE_STORAGE_ACCOUNT_KEY": "S3CRET"},
                r"an account key, from the environment (AZURE_STORAGE_ACCOUNT_KEY)",
            ),
            (
                {"AZURE_STORAGE_SAS_TOKEN": "S3CRET"},
                "a shared access signature, from the environment",
            ),
            ({"AZURE_CLIENT_SECRET": "S3CRET"}, "a service principal, from the environment"),
            (
                {"AZURE_FEDERATED_TOKEN_FILE": "/S3CRET"},
                "a workload identity, from the environment",
            ),
            ({}, "the usual Azure chain"),
        ],
    )
    def test_of_azure(self, env, text):
        found = credential_source("https", self.OPTIONS, env)
        assert text in found
        assert "S3CRET" not in found

    def test_of_azure_in_the_options(self):
        found = credential_source("https", StoreOptions(azure_account_key="S3CRET"), {})
        assert found == "an account key, from the settings of this code location"

    def test_of_google(self, tmp_path):
        key = tmp_path / "key.json"
        with pytest.raises(SettingsError, match=r"is not there\. Correct the name"):
            credential_source("gs", self.OPTIONS, {"GOOGLE_APPLICATION_CREDENTIALS": str(key)})
        key.write_text("S3CRET")
        named = credential_source("gs", StoreOptions(gcs_service_account_file=str(key)), {})
        assert named == "the key file named by the settings"
        assert "the usual Google chain" in credential_source("gs", self.OPTIONS, {})

    def test_of_aws(self, monkeypatch):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "S3CRET")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CRET")
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        assert credential_source("s3", self.OPTIONS) == "the environment (AWS_ACCESS_KEY_ID)"
        assuming = StoreOptions(
            s3_access_key_id="S3CRET",
            s3_secret_access_key="S3CRET",
            s3_role_arn="arn:aws:iam::1:role/gc",
        )
        assert credential_source("s3", assuming).endswith(
            "to assume the role arn:aws:iam::1:role/gc"
        )
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        with pytest.raises(SettingsError, match="Correct it, or s3_profile"):
            credential_source("s3", StoreOptions(s3_profile="no-such-profile"))

    def test_of_files(self):
        assert "files, as the system's user" in credential_source("local", self.OPTIONS)
