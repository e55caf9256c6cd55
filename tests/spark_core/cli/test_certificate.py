"""Certificates say "gone" only where nothing holds the bytes, and show any changed byte."""

import base64
import hashlib
import json
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox, objects, refs
from lakegc_dagster.sandbox.history import documents_history
from spark_core.certificate import content, issue, seal_and_signature, under_prefix
from spark_core.cli.main import main
from spark_core.lakefs import LakeFSServer
from spark_core.records.manifest import Manifest
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.local import LocalStore
from spark_core.sweep.quarantine import key_of
from tests.support.command_line import settings_on
from tests.support.forgeries import forgeries

pytestmark = pytest.mark.spark

SETTINGS = """\
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[defaults]
repository_cache_seconds = 0
mode = "sweep"
[repositories.repo]
quarantine = false
[repositories.aside]
quarantine = true
"""
GONE = "only_0227"


class Place:
    """A sandbox with two swept repositories, one into quarantine; the command line on it."""

    def __init__(self, sandbox, folder):
        self.sandbox, self.folder = sandbox, folder
        self.stories = {
            name: documents_history(sandbox, name, now=datetime.now(UTC))
            for name in ("repo", "aside")
        }
        self.env = settings_on(sandbox, folder, SETTINGS)
        ran = self.lakegc("run")
        assert ran.exit_code == 0, ran.output
        self.key = re.search(r"run (\d{4}-\S+Z)", ran.stdout)[1]

    def lakegc(self, *words, **env):
        return CliRunner().invoke(main, words, env={**self.env, **env})

    def certify(self, *more, repository="repo", key=None):
        """Make a certificate; the answer, and the file."""
        out = self.folder / "certificate.json"
        out.unlink(missing_ok=True)
        words = ("certificate", repository, key or self.key, "--out", str(out), *more)
        answer = self.lakegc(*words)
        return answer, json.loads(out.read_text()) if out.exists() else None

    def verify(self, made, *more):
        file = self.folder / "checked.json"
        file.write_text(json.dumps(made))
        return self.lakegc("verify", str(file), *more)


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    with Sandbox(folder / "sandbox") as sandbox:
        yield Place(sandbox, folder)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two key pairs as openssl writes them: private and public file of each."""
    folder, pairs = tmp_path_factory.mktemp("keys"), []
    for name in ("ours", "theirs"):
        private, public = folder / f"{name}.pem", folder / f"{name}.pub"
        command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(private)]
        subprocess.run(command, check=True, capture_output=True)
        command = ["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public)]
        subprocess.run(command, check=True, capture_output=True)
        pairs.append((str(private), str(public)))
    return pairs


@pytest.mark.slow
def test_what_a_run_deleted_is_gone_by_these_rules_and_this_reading(place):
    answer, made = place.certify()
    assert answer.exit_code == 0, answer.output
    deleted = place.stories["repo"].deleted
    assert made["gone"]
    assert made["outcomes"]["deleted"][0] == len(deleted)
    assert made["rules"] == {"default_retention_days": 14, "branches": {"main": 21, "dev": 7}}
    assert made["commits"]["retained"] > 0
    assert made["mark"] == {"kind": "clean"}
    assert set(made["tables"]) >= {"retained_commits", "expired_addresses"}
    assert all(check["passed"] for check in made["checks"])
    assert made["figures"]["looked_for"] == len(deleted)
    assert f"run {place.key} of repo deleted are gone." in answer.stdout
    verified = place.verify(made)
    assert verified.exit_code == 0, verified.output
    assert verified.stdout.startswith("Not signed: anybody could have written this file.\n")
    assert "digest and chain are right" in verified.stdout
    more = "after_deletion, by_reason, confirmed, figures, mark, prefix"
    not_covered = f"not covered  issued_at, lakegc\n             and, without --store, {more}\n"
    assert verified.stdout.endswith(not_covered)


def test_everything_under_a_path_is_gone_where_no_commit_and_no_branch_holds_it(place):
    answer, made = place.certify("--path", GONE)
    assert answer.exit_code == 0, answer.output
    path = made["path"]
    assert path["gone"]
    (one,) = path["objects"]
    assert (one["path"], one["deleted_by_this_run"], one["held_by"]) == (GONE, True, [])
    verified = place.verify(made, "--store")
    assert verified.exit_code == 0, verified.output
    assert " agrees\nnot covered  issued_at, lakegc, path.commits_read, path.read_at\n" in (
        verified.stdout
    )


def test_what_still_holds_the_rest_of_a_path_is_named(place):
    answer, made = place.certify("--path", "features/")
    assert answer.exit_code == 1
    path = made["path"]
    assert not path["gone"]
    kept = [one for one in path["objects"] if not one["gone"]]
    assert 0 < len(kept) < len(path["objects"])
    for one in kept:
        assert "branch dev" in one["held_by"]
        assert any(words.startswith("commit ") for words in one["held_by"])
    assert "are not known to be gone" in answer.stdout


def test_a_staged_object_holds_its_path(place):
    story = place.stories["repo"]
    core = place.sandbox.core
    with core.lock:
        entry = objects.upload(core, "repo", "main", "people/1", b"staged only")
    assert story
    answer, made = place.certify("--path", "people/")
    assert answer.exit_code == 1
    (one,) = made["path"]["objects"]
    assert (one["address"], one["last_commit"]) == (entry.address, None)
    assert one["held_by"] == ["branch main"]
    with core.lock:
        objects.delete(core, "repo", "main", ["people/1"])


def test_what_only_an_old_commit_has_and_no_sweep_took_is_not_gone(place):
    core = place.sandbox.core
    with core.lock:
        objects.upload(core, "repo", "main", "brief/1", b"committed and removed")
        refs.commit(core, "repo", "main", message="with it")
        objects.delete(core, "repo", "main", ["brief/1"])
        refs.commit(core, "repo", "main", message="without it")
    _, made = place.certify("--path", "brief/")
    (one,) = made["path"]["objects"]
    assert not one["gone"]
    assert re.match(r"commit [0-9a-f]{12} \(", one["held_by"][0])


def test_the_way_to_an_erasure_names_each_step_and_ends_where_nothing_is_left(place):
    done = place.lakegc("erase", "repo", "--path", GONE)
    assert done.exit_code == 0, done.output
    assert "Nothing is left." in done.stdout
    out = place.folder / "erase.json"
    told = place.lakegc("erase", "repo", "--path", "features/", "--policy-out", str(out))
    assert told.exit_code == 1
    steps = re.findall(r"^ *\d (remove|obstacle|wait|run|certify) ", told.stdout, re.MULTILINE)
    assert steps == ["remove", "wait", "run", "certify"]
    assert re.search(r"branches show it: .*\bdev\b.*; a removal takes", told.stdout)
    assert "lakegc certificate repo RUN --path 'features/'" in told.stdout
    rules = json.loads(out.read_text())["rules"]
    assert "dev/features/" in [rule["filter"]["prefix"] for rule in rules]
    assert {rule["effect"] for rule in rules} == {"remove"}
    # A removal takes what is a day old; then each branch keeps what was removed for its days.
    branches = [rule["filter"]["prefix"].partition("/")[0] for rule in rules]
    days = 1 + max({"main": 21, "dev": 7}.get(branch, 14) for branch in branches)
    day = datetime.now(UTC) + timedelta(days=days, hours=1)
    assert f"It is gone on {day:%Y-%m-%d} at the earliest" in told.stdout
    held = place.lakegc("hold", "add", "repo", "kept", "--path", "features/**")
    assert held.exit_code == 0, held.output
    told = place.lakegc("erase", "repo", "--path", "features/")
    place.lakegc("hold", "remove", "repo", "kept")
    assert "obstacle hold kept: path features/**" in told.stdout
    assert "lakegc hold remove repo kept" in told.stdout
    assert "There is no day on which it is gone" in told.stdout
    assert place.lakegc("erase", "repo", "--path", "nobody/").exit_code == 1


def test_the_day_of_an_erasure_is_that_of_the_quarantine_and_does_not_move(place):
    runs = json.loads(place.lakegc("runs", "aside", "--json").stdout)["aside"]["runs"]
    (until,) = [run["quarantine_until"] for run in runs]

    def way():
        answer = place.lakegc("erase", "aside", "--path", GONE, "--json")
        assert answer.exit_code == 1, answer.output
        return json.loads(answer.stdout)["result"]

    found = way()
    assert [(step["kind"], step["until"]) for step in found["steps"]] == [
        ("wait", until),
        ("certify", until),
    ]
    assert way() == found


def test_no_day_of_an_erasure_is_promised_where_runs_only_mark(place):
    mark = {"LAKEGC__DEFAULTS__MODE": "mark"}
    for repository, prefix in (("repo", "features/"), ("aside", GONE)):
        told = place.lakegc("erase", repository, "--path", prefix, **mark)
        assert told.exit_code == 1, told.output
        assert f'obstacle runs delete nothing: set mode = "sweep" for {repository}' in told.stdout
        assert "There is no day on which it is gone" in told.stdout


def test_no_day_of_an_erasure_is_promised_where_no_run_can_be(place, monkeypatch):
    asked = LakeFSServer.repository
    monkeypatch.setattr(LakeFSServer, "repository", lambda *of: replace(asked(*of), read_only=True))
    told = place.lakegc("erase", "repo", "--path", "features/")
    assert told.exit_code == 3
    assert "repository repo is read-only" in told.stderr
    assert "gone on" not in told.stdout


@pytest.mark.parametrize("keeps", [True, None])
def test_no_day_of_an_erasure_is_promised_where_the_store_keeps_what_is_deleted(
    place, monkeypatch, keeps
):
    words = "the bucket keeps versions"
    monkeypatch.setattr(LocalStore, "after_deletion", lambda _store: AfterDeletion(keeps, words))
    # What was swept, and what is still to be.
    for prefix in (GONE, "features/"):
        told = place.lakegc("erase", "repo", "--path", prefix)
        assert told.exit_code == 1, told.output
        assert re.search(rf"obstacle .*{words}: what lakegc deletes may stay", told.stdout)
        assert "There is no day on which it is gone" in told.stdout


def test_a_policy_of_an_erasure_that_is_set_is_not_written_longer(place):
    out, again = place.folder / "first.json", place.folder / "again.json"
    place.lakegc("erase", "repo", "--path", "features/", "--policy-out", str(out))
    done = place.lakegc("retention", "set", "repo", "--policy-file", str(out))
    assert done.exit_code == 0, done.output
    place.lakegc("erase", "repo", "--path", "features/", "--policy-out", str(again))
    place.lakegc("retention", "delete", "repo")
    assert json.loads(again.read_text()) == json.loads(out.read_text())


def test_a_path_that_nothing_ever_had_is_not_called_gone(place):
    answer, made = place.certify("--path", "nobody/")
    assert answer.exit_code == 1
    assert not made["path"]["gone"]
    assert "Nothing has or had a path under 'nobody/'" in answer.stdout


def test_quarantine_holds_the_bytes_and_is_named(place):
    answer, made = place.certify("--path", GONE, repository="aside")
    assert answer.exit_code == 1
    assert not made["gone"]
    assert "lie in quarantine under _lakefs/retention/gc/quarantine/" in made["statement"]
    (one,) = made["path"]["objects"]
    assert one["held_by"] == [f"the quarantine of run {place.key}"]


@pytest.mark.parametrize("keeps", [True, None])
def test_a_store_that_keeps_versions_or_does_not_say_is_not_gone(place, monkeypatch, keeps):
    words = "the bucket keeps versions"
    monkeypatch.setattr(LocalStore, "after_deletion", lambda _store: AfterDeletion(keeps, words))
    answer, made = place.certify("--path", GONE)
    assert answer.exit_code == 1
    assert not made["gone"]
    assert words in made["statement"]
    assert words in made["path"]["objects"][0]["held_by"][0]


def test_a_certificate_stops_to_hold_when_an_object_comes_back(place):
    _, made = place.certify("--path", GONE)
    address = made["path"]["objects"][0]["address"]
    file = place.sandbox.blockstore / "repo" / address
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"back")
    try:
        answer = place.verify(made, "--store")
        assert answer.exit_code == 1
        assert f"1 are in their place again ({address})" in answer.stdout
        assert not place.certify()[1]["gone"]
    finally:
        file.unlink()
    assert place.verify(made, "--store").exit_code == 0


@pytest.mark.slow
def test_what_lies_in_the_quarantine_of_another_run_is_not_gone(place):
    _, before = place.certify("--path", GONE)
    address = before["path"]["objects"][0]["address"]
    # As it is after a restore of an earlier run, whose copy stays until it is purged.
    earlier = "2026-01-02T03-04-05Z"
    file = place.sandbox.blockstore / "repo" / key_of(earlier, address)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"aside")
    try:
        answer, made = place.certify()
        assert answer.exit_code == 1
        assert not made["gone"]
        assert f"1 lie in the quarantine of other runs ({earlier})" in made["statement"]
        assert place.verify(made, "--store").exit_code == 0
        assert place.verify(before, "--store").exit_code == 1
    finally:
        file.unlink()
    assert place.verify(before, "--store").exit_code == 0


def test_of_a_larger_run_some_objects_are_looked_for_once_more(place, monkeypatch):
    monkeypatch.setattr(issue, "_written_at", lambda _store, key: datetime.now(UTC))
    monkeypatch.setattr(issue, "LOOKED_FOR", 100)
    answer, made = place.certify()
    assert answer.exit_code == 1
    assert made["outcomes"]["deleted"][0] > 100
    assert (made["figures"]["looked_for"], made["figures"]["found_again"]) == (100, 100)
    assert "100 are in their place again" in made["statement"]


def test_more_objects_than_the_driver_holds_are_refused(place, monkeypatch):
    monkeypatch.setattr(under_prefix, "MOST_OBJECTS", 2)
    answer, made = place.certify("--path", "features/")
    assert (answer.exit_code, made) == (3, None)
    assert "Name a longer prefix" in answer.stderr


def test_a_signature_proves_who_and_what(place, keys):
    (ours, our_public), (_, their_public) = keys
    _, made = place.certify("--key", ours)
    right = place.verify(made, "--public-key", our_public)
    assert right.exit_code == 0, right.output
    assert right.stdout.startswith("Signed by the key of --public-key.\n")
    assert place.verify(made).stdout.startswith("Signed by a key that the file itself names: any")
    wrong = place.verify(made, "--public-key", their_public)
    assert wrong.exit_code == 1
    assert "it was not signed by that key" in wrong.stdout
    made["signature"] = None
    assert place.verify(made).stdout.startswith("Not signed: anybody could have written")
    assert "it is not signed" in place.verify(made, "--public-key", our_public).stdout
    del made["signature"]
    assert "it is not signed" in place.verify(made, "--public-key", our_public).stdout


def test_other_tools_read_and_check_what_was_signed(place, keys, tmp_path):
    (ours, our_public), _ = keys
    _, made = place.certify("--key", ours)
    envelope = made["signature"]
    payload = base64.b64decode(envelope["payload"])
    (signature,) = envelope["signatures"]
    kind = envelope["payloadType"].encode()
    # As the standard for the envelope gives it.
    signed = b" ".join([b"DSSEv1", b"%d" % len(kind), kind, b"%d" % len(payload), payload])
    (tmp_path / "signed").write_bytes(signed)
    (tmp_path / "sig").write_bytes(base64.b64decode(signature["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", our_public, "-rawin"]
    command += ["-in", str(tmp_path / "signed"), "-sigfile", str(tmp_path / "sig")]
    subprocess.run(command, check=True, capture_output=True)
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    (subject,) = statement["subject"]
    report = hashlib.sha256(made["deletion_report"].encode()).hexdigest()
    assert subject["digest"] == {"sha256": report}
    rest = {name: each for name, each in made.items() if name not in {"sha256", "signature"}}
    assert statement["predicate"] == rest


@pytest.mark.parametrize("trusts", [True, False])
def test_whatever_is_changed_in_a_signature_it_does_not_fit(place, keys, trusts):
    (ours, our_public), _ = keys
    _, made = place.certify("--key", ours)
    public = seal_and_signature.public_key(Path(our_public).read_bytes(), "key")
    for where, words, envelope in forgeries(made["signature"]):
        changed = {**made, "signature": envelope}
        wrong = seal_and_signature.faults(changed, public if trusts else None)
        assert wrong, (where, words)


def _resealed(made, **changed):
    """A certificate that a forger edited and sealed again, without the key."""
    content = {name: value for name, value in made.items() if name not in {"sha256", "signature"}}
    forged = seal_and_signature.sealed({**content, **changed})
    return {**forged, **({"signature": made["signature"]} if "signature" in made else {})}


def test_an_edited_certificate_is_found_out(place, keys):
    _, made = place.certify("--key", keys[0][0])
    edited = place.verify({**made, "statement": "All is gone."})
    assert edited.exit_code == 1
    assert "its content is not what was sealed" in edited.stdout
    assert (
        "its signature does not fit its content"
        in place.verify(_resealed(made, statement="x")).stdout
    )


def test_a_certificate_that_was_sealed_anew_still_has_to_fit_its_own_proof(place):
    _, made = place.certify()
    for changed, text in (
        ({"outcomes": {"deleted": [1, 1]}}, "outcomes.deleted[0]: the certificate says 1, its own"),
        ({"run": "2020-01-01T00-00-00Z"}, "run: the certificate says"),
        ({"verdict": made["verdict"].replace("repo", "ropo", 1)}, "was edited or damaged"),
        ({"tables": {}}, "tables.retained_commits: the certificate lacks it"),
        ({"deletion_report": "{}"}, "its deletion report"),
    ):
        answer = place.verify(_resealed(made, **changed))
        assert answer.exit_code == 1, changed
        assert text in answer.stdout


def test_the_store_finds_out_a_certificate_of_other_tables(place):
    _, made = place.certify()
    report = made["deletion_report"]
    other = json.loads(report)
    forged = _resealed(made, deletion_report=report.replace(other["attempt"], "0" * 32))
    answer = place.verify(forged, "--store")
    assert answer.exit_code == 1


@pytest.mark.slow
def test_a_certificate_that_was_sealed_anew_without_a_part_is_refused_by_its_name(place):
    _, made = place.certify("--path", GONE)
    one = made["path"]["objects"][0]
    lacking = {name: {**made} for name in made if name not in {"kind", "format"}}
    for name, left in lacking.items():
        del left[name]
    for name in made["path"]:
        left = {key: value for key, value in made["path"].items() if key != name}
        lacking[f"path.{name}"] = {**made, "path": left}
    for name in one:
        left = {key: value for key, value in one.items() if key != name}
        lacking[f"path.objects.{name}"] = {**made, "path": {**made["path"], "objects": [left]}}
    wrong = {
        "statement": [7, "\ud800", "\n\x1b[2J"],
        "gone": ["yes"],
        "held_by": [[1]],
        "outcomes": [[]],
        "path": ["all", {}, {**made["path"], "objects": [7]}],
        "figures": [{**made["figures"], "restored": float("inf")}, 10**400],
        "run": [[]],
        "prefix": ["", "\ud800"],
    }
    forms = [(name, {**made, name: each}) for name, some in wrong.items() for each in some]
    for name, left in [*lacking.items(), *forms]:
        forged = left if name == "sha256" else _resealed(left)
        for more in ((), ("--store",)):
            answer = place.verify(forged, *more)
            assert isinstance(answer.exception, SystemExit), (name, answer.exception)
            assert answer.exit_code == 1, name
            assert name.partition(".")[0] in answer.output


def test_a_field_that_is_there_twice_is_refused(place):
    _, made = place.certify()
    file = place.folder / "twice.json"
    for name in ("statement", "x\\n\\u001b[2Jx"):
        file.write_text(f'{{"{name}": 1, "{name}": 2, ' + json.dumps(made).removeprefix("{"))
        answer = place.lakegc("verify", str(file))
        assert answer.exit_code == 3
        words = name.replace("u001b", "x1b")
        told = f"is not a certificate of lakegc: it has the field `{words}` twice"
        assert told in answer.stderr


def test_the_name_of_a_field_does_not_look_like_an_answer(place):
    _, made = place.certify()
    name = "x\nSigned by the key of --public-key.\nstore        s3://x/ agrees\n\ud800"
    answer = place.verify(_resealed(made, **{name: 1}))
    assert answer.exit_code == 1
    assert len(answer.stdout.splitlines()) == 2
    assert answer.stdout.splitlines()[1].startswith("wrong    x\\nSigned by the key of")


def test_no_more_commits_were_read_than_there_are(place):
    _, made = place.certify("--path", GONE)
    path = made["path"]
    read = path["commits_read"]
    for number in (read + 1, 10**30, -1):
        words = path["statement"].replace(f"all {read:,} ", f"all {number:,} ")
        forged = _resealed(made, path={**path, "commits_read": number, "statement": words})
        answer = place.verify(forged, "--store")
        assert answer.exit_code == 1, number
        assert "path" in answer.stdout


def test_a_statement_that_its_own_proof_does_not_give_is_a_forgery(place):
    _, made = place.certify("--path", GONE, repository="aside")
    assert not made["gone"]
    told = made["statement"].replace("It is not certain that the", "The").partition(" are gone")[0]
    for changed, text in (
        ({"statement": f"{told} are gone."}, "statement"),
        ({"statement": f"{told} are gone.", "gone": True, "held_by": []}, "held_by"),
        ({"rules": {**made["rules"], "default_retention_days": 1}}, "rules.default_retention_days"),
        ({"cutoff": "2020-01-01T00:00:00+00:00"}, "cutoff"),
        ({"checks": []}, "checks"),
        ({"path": {**made["path"], "gone": True}}, "path.gone"),
    ):
        answer = place.verify(_resealed(made, **changed))
        assert answer.exit_code == 1, changed
        assert re.search(rf"^wrong +{re.escape(text)}:", answer.stdout, re.MULTILINE), text
        assert "\nThe 129 objects" not in answer.stdout


def test_nothing_is_gone_where_the_store_refused_each_deletion(place):
    _, made = place.certify()
    report = Manifest.from_json(made["deletion_report"].encode(), name="report")
    facts = {
        **report.facts,
        "deleted_objects": 0,
        "deleted_bytes": 0,
        "refused_objects": 129,
        "refused_bytes": 1,
    }
    refused = replace(report, facts=facts).to_json().decode()
    asked = {**made, "by_reason": {"garbage": {"refused": [129, 1]}}}
    found = content.content(made["verdict"], refused, asked)
    assert not found["gone"]
    assert "deleted nothing. 129 others were to go and were not" in found["statement"]


def test_what_only_the_store_can_tell_is_compared_with_it(place):
    _, made = place.certify("--path", GONE, repository="aside")
    path = made["path"]
    (one,) = path["objects"]
    for changed, text in (
        ({"mark": {"kind": "optimized"}}, "mark"),
        ({"path": {**path, "objects": [{**one, "path": "people/4711"}]}}, "path.objects[0].path"),
        ({"path": {**path, "objects": [{**one, "last_commit": None}]}}, "last_commit"),
        ({"confirmed": ["enough_is_retained"]}, "confirmed"),
    ):
        answer = place.verify(_resealed(made, **changed), "--store")
        assert answer.exit_code == 1, changed
        assert text in answer.stdout
        assert "agrees" not in answer.stdout


def test_what_is_no_certificate_or_no_key_is_named(place, tmp_path, keys):
    answer = place.verify({"kind": "letter"})
    assert answer.exit_code == 3
    assert "is not a certificate of lakegc" in answer.stderr
    later = place.verify({"kind": seal_and_signature.KIND, "format": 9})
    assert "in format 9, this lakegc reads 1" in later.stderr
    no_key = tmp_path / "key.pem"
    no_key.write_text("secret words")
    answer, made = place.certify("--key", str(no_key))
    assert (answer.exit_code, made) == (2, None)
    assert "is not an ed25519 private key" in answer.stderr
    assert "secret words" not in answer.output
    assert place.certify("--key", keys[0][1])[0].exit_code == 2


@pytest.mark.deep
def test_a_run_that_was_only_marked_has_nothing_to_certify(place):
    marked = place.lakegc("mark", "repo")
    key = re.search(r"run (\d{4}-\S+Z)", marked.stdout)[1]
    answer, made = place.certify(key=key)
    assert (answer.exit_code, made) == (3, None)
    assert "was not swept: there is nothing to certify" in answer.stderr


def test_what_was_restored_is_not_gone(place):
    back = place.lakegc("restore", "aside", place.key)
    assert back.exit_code == 0, back.output
    _, made = place.certify(repository="aside")
    assert "were restored" in made["statement"]


def test_the_day_of_an_erasure_waits_until_what_came_back_is_old_enough(place):
    back = place.lakegc("restore", "aside", place.key, "--address", f"lakefs://aside/main/{GONE}")
    assert back.exit_code == 0, back.output
    answer = place.lakegc("erase", "aside", "--path", GONE, "--json")
    (wait, run, *_) = json.loads(answer.stdout)["result"]["steps"]
    assert (wait["kind"], run["kind"]) == ("wait", "run")
    assert datetime.fromisoformat(run["until"]) > datetime.now(UTC) + timedelta(hours=23)
