"""Holds: what is kept by name, how it is found when the hold is made, and that an unreadable hold
refuses.
"""

import pickle
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core import holds, lakegc_keys
from spark_core.errors import (
    AddressError,
    CorruptTableError,
    IncompleteReadError,
    NotFoundError,
    ObjectExistsError,
    SettingsError,
    TransientError,
)
from spark_core.holds import Hold, Holds
from spark_core.holds.path_patterns import beginning, matching
from spark_core.model import Branch, Commit, Refs, Tag
from spark_core.storage import DeleteOutcome
from tests.support.memory_store import MemoryStore
from tests.support.written_run import NOW, written_run

IDS = [f"{number:064x}" for number in range(1, 8)]
A, B, C, D, E, F, G = IDS


def _commit(commit_id, *parents):
    return Commit(commit_id, parents, NOW - timedelta(days=1), f"m{commit_id[-1]}")


# A <- B <- C (a merge of B and E), D <- E; F and G stand alone.
GRAPH = {
    commit.id: commit
    for commit in (
        _commit(A),
        _commit(B, A),
        _commit(C, B, E),
        _commit(D),
        _commit(E, D),
        _commit(F),
        _commit(G),
    )
}


def _refs(branches=(), tags=(), commits=None):
    return Refs(
        GRAPH if commits is None else commits,
        tuple(Branch(*branch) for branch in branches),
        tuple(Tag(*tag) for tag in tags),
    )


def _hold(kind, value, commit_id=None, name="audit"):
    return Hold(name, kind, value, commit_id, "ann", NOW, "an audit")


@pytest.fixture
def run(tmp_path):
    run = written_run(tmp_path, spark=None).run
    server = SimpleNamespace(
        branches=lambda _repository: [Branch("main", C), Branch("dev", E)],
        tags=lambda _repository: [Tag("v1", B)],
        log=_log,
    )
    return replace(run, environment=replace(run.environment, server=server))


def _log(_repository, ref, **_):
    found = [commit for commit_id, commit in GRAPH.items() if commit_id.startswith(ref)]
    if ref == "main":
        return iter([GRAPH[C]])
    if len(found) != 1:
        raise NotFoundError(f"no ref {ref}")
    return iter(found)


def _add(run, kind, value, name="audit"):
    return holds.add(run, name, kind, value, who="ann", why="an audit")


def test_what_is_added_is_loaded_and_what_is_removed_is_not(run):
    run.store.put("data/gp/x", b"1")
    made = [_add(run, "branch", "main"), _add(run, "address", "data/gp/x", name="other")]
    assert holds.load(run.store) == Holds(tuple(made))
    assert holds.remove(run, "audit") == made[0]
    assert holds.load(run.store) == Holds((made[1],))


def test_a_namespace_without_holds_holds_nothing(run):
    assert holds.load(run.store) == holds.NONE
    assert holds.NONE.protecting(pa.array(["data/x"])).to_pylist() == [False]
    assert holds.NONE.commits(_refs()) == {}


def test_a_branch_or_tag_is_held_together_with_the_commit_that_it_names_now(run):
    assert _add(run, "branch", "dev", name="one").commit_id == E
    assert _add(run, "tag", "v1", name="two").commit_id == B
    assert _add(run, "commit", F[-64:], name="three").commit_id == F


def test_the_beginning_of_a_commit_id_becomes_the_whole_id(run, monkeypatch):
    commit_id = "abcdef" + "0" * 58
    monkeypatch.setitem(GRAPH, commit_id, _commit(commit_id))
    made = _add(run, "commit", "abcdef")
    assert (made.value, made.commit_id) == (commit_id, commit_id)


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("branch", "mian", r"repo has no branch mian\. Did you mean main\?"),
        ("tag", "main", r"repo has no tag main\. There are: v1\."),
        ("commit", "main", "a commit id is hex"),
        ("commit", "0" * 64, "no ref"),
        ("address", "data/gp/gone", "no object 'data/gp/gone'"),
        ("prefix", "data/gp/", "no object below 'data/gp/'"),
        ("prefix", "data/g", "no object below 'data/g'"),
    ],
)
def test_what_is_not_there_cannot_be_held(run, kind, value, problem):
    with pytest.raises(NotFoundError, match=problem):
        _add(run, kind, value)
    assert holds.load(run.store) == holds.NONE


def test_a_branch_that_begins_like_a_commit_id_is_not_taken_for_one(run, monkeypatch):
    monkeypatch.setattr(run.environment.server, "log", lambda _repository, _ref: iter([GRAPH[C]]))
    with pytest.raises(NotFoundError, match="no commit abcdef"):
        _add(run, "commit", "abcdef")


def test_a_full_address_becomes_relative_to_the_namespace(run):
    run.store.put("data/gp/x", b"1")
    assert _add(run, "address", "local://repo/data/gp/x", name="one").value == "data/gp/x"
    assert _add(run, "prefix", "local://repo/data/gp/", name="two").value == "data/gp/"
    assert _add(run, "prefix", "data/g", name="three").value == "data/g"


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("address", "s3://elsewhere/data/gp/x", "lies outside"),
        ("address", "local://other/data/gp/x", "lies outside"),
        ("address", "data/gp/../x", "empty, `.` or `..` segment"),
        ("address", "/data/gp/x", "begins with a slash"),
        ("address", "", "is empty"),
        ("address", "data/gp/x\0", "NUL"),
        ("address", "_lakefs/refs_manifest.json", "never collected"),
        ("address", "local://repo/", "names the namespace itself|could be read"),
        ("prefix", "local://repo/", "names the namespace itself|could be read|lies outside"),
        ("prefix", "/", "is empty"),
        ("prefix", "", "is empty"),
    ],
)
def test_an_address_of_an_unknown_form_or_from_elsewhere_refuses(run, kind, value, problem):
    with pytest.raises(AddressError, match=problem):
        _add(run, kind, value)


@pytest.mark.parametrize("name", ["", "Audit", "a b", "../x", "a/b", ".a", "-a", "a" * 64, "ä"])
def test_a_name_that_not_every_store_spells_alike_is_none(run, name):
    with pytest.raises(SettingsError, match="a hold cannot be called"):
        _add(run, "branch", "main", name=name)


def test_a_name_is_given_once(run):
    _add(run, "branch", "main")
    with pytest.raises(
        SettingsError,
        match=r"there is a hold audit of repo already \(branch main, by ann since 2026",
    ):
        _add(run, "branch", "dev")
    assert [hold.value for hold in holds.load(run.store).holds] == ["main"]


def test_a_hold_whose_answer_was_lost_is_found_to_be_ones_own(run, monkeypatch):
    real = run.store.put_if_absent

    def losing(key, data):
        real(key, data)
        raise ObjectExistsError("the answer to the first request was lost")

    monkeypatch.setattr(run.store, "put_if_absent", losing)
    made = _add(run, "branch", "main")
    assert holds.load(run.store) == Holds((made,))


def test_removing_what_is_not_there_names_what_is(run):
    with pytest.raises(NotFoundError, match=r"no hold 'x' of repo \(there is none\)"):
        holds.remove(run, "x")
    _add(run, "branch", "main")
    with pytest.raises(NotFoundError, match="there are: audit"):
        holds.remove(run, "../x")


def test_a_hold_that_the_store_does_not_let_go_of_holds_on(run, monkeypatch):
    _add(run, "branch", "main")
    monkeypatch.setattr(
        run.store,
        "delete",
        lambda keys: [DeleteOutcome(key, "refused", "HTTP 403") for key in keys],
    )
    with pytest.raises(TransientError, match=r"HTTP 403.*so it still applies"):
        holds.remove(run, "audit")


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"format": 2, "sha256": ""}', b"null"]
)
def test_an_unreadable_hold_refuses_by_name(run, data):
    _add(run, "branch", "main")
    run.store.put(lakegc_keys.hold_key("broken"), data)
    with pytest.raises(CorruptTableError, match=r"_lakefs/retention/gc/holds/broken\.json"):
        holds.load(run.store)


def test_any_damaged_letter_of_a_hold_refuses():
    store = MemoryStore()
    intact = _hold("branch", "main", C).to_json()
    for position in range(len(intact)):
        store.objects[lakegc_keys.hold_key("audit")] = (
            intact[:position] + bytes([intact[position] ^ 1]) + intact[position + 1 :]
        )
        with pytest.raises(CorruptTableError, match=r"holds/audit\.json"):
            holds.load(store)


def test_a_hold_under_another_name_refuses(run):
    made = _add(run, "branch", "main")
    run.store.put(lakegc_keys.hold_key("copy"), made.to_json())
    with pytest.raises(CorruptTableError, match="belongs under another name"):
        holds.load(run.store)


def test_what_lies_among_the_holds_and_is_none_refuses(run):
    run.store.put(f"{lakegc_keys.HOLDS}notes.txt", b"keep everything")
    with pytest.raises(CorruptTableError, match="no hold, and nothing else belongs there"):
        holds.load(run.store)


def test_what_a_killed_local_store_left_half_written_is_passed_over(run):
    run.store.put(f"{lakegc_keys.HOLDS}.lakegc-0123456789abcdef.part", b"{")
    assert holds.load(run.store) == holds.NONE


def test_a_hold_that_is_listed_and_cannot_be_read_refuses(run, monkeypatch):
    _add(run, "branch", "main")
    monkeypatch.setattr(run.store, "read", _unreadable)
    with pytest.raises(NotFoundError):
        holds.load(run.store)


def _unreadable(key):
    raise NotFoundError(f"no {key}, says a cache")


def test_a_hold_that_is_still_listed_was_not_removed_whatever_the_store_says(run, monkeypatch):
    _add(run, "branch", "main")
    monkeypatch.setattr(run.store, "read", _unreadable)
    monkeypatch.setattr(run.store, "exists", lambda _key: False)
    with pytest.raises(NotFoundError):
        holds.load(run.store)


def test_a_hold_that_was_removed_while_holds_were_listed_is_none(run, monkeypatch):
    _add(run, "branch", "main")
    real = run.store.read

    def reading(key):
        run.store.delete([key])
        return real(key)

    monkeypatch.setattr(run.store, "read", reading)
    assert holds.load(run.store) == holds.NONE


def test_a_held_address_is_protected_and_its_neighbours_are_not():
    held = Holds((_hold("address", "data/s/x"), _hold("prefix", "data/t/", name="later")))
    addresses = ["data/s/x", "data/s/xy", "data/s/", "data/t/1", "data/t", "data/T/1"]
    assert held.protecting(pa.array(addresses)).to_pylist() == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]
    assert held.reasons(pa.array(addresses[:4])).to_pylist() == [
        "hold audit: address data/s/x",
        None,
        None,
        "hold later: prefix data/t/",
    ]


@given(
    st.lists(st.sampled_from(["data/s/x", "data/s/", "data/", "d", "data/é"]), max_size=3),
    st.lists(st.text("adts/xé", max_size=9), max_size=9),
)
def test_protected_is_what_equals_an_address_or_begins_with_a_prefix(values, addresses):
    held = Holds(
        tuple(
            _hold(kind, value)
            for value in values
            for kind in ("address", "prefix")
            if len(value) % 2
        )
    )
    pairs = [(hold.kind, hold.value) for hold in held.holds]
    expected = [
        any(
            address == value if kind == "address" else address.startswith(value)
            for kind, value in pairs
        )
        for address in addresses
    ]
    assert held.protecting(pa.array(addresses, pa.string())).to_pylist() == expected
    assert held.protecting(pa.array(addresses, pa.large_string())).to_pylist() == expected


def test_holds_travel_to_executors():
    held = Holds((_hold("address", "data/s/x"),))
    assert pickle.loads(pickle.dumps(held)) == held


def test_a_held_commit_keeps_itself_alone():
    assert Holds((_hold("commit", B, B),)).commits(_refs([("main", C)])) == {
        B: f"hold audit: commit {B[:12]}"
    }


def test_a_held_tag_keeps_its_commit_wherever_the_tag_went():
    held = Holds((_hold("tag", "v1", B),))
    assert set(held.commits(_refs([("main", C)], [("v1", B)]))) == {B}
    assert set(held.commits(_refs([("main", C)], [("v1", F)]))) == {B, F}
    assert set(held.commits(_refs([("main", C)], []))) == {B}


def test_a_held_branch_keeps_all_that_it_reaches_by_every_parent():
    held = Holds((_hold("branch", "main", B),))
    assert set(held.commits(_refs([("main", C)]))) == {A, B, C, D, E}
    assert held.commits(_refs([("main", C)]))[D] == "hold audit: branch main"


def test_a_held_branch_that_is_gone_or_was_reset_keeps_what_it_reached_when_it_was_held():
    held = Holds((_hold("branch", "main", B),))
    assert set(held.commits(_refs([("dev", E)]))) == {A, B}
    assert set(held.commits(_refs([("main", F)]))) == {A, B, F}


def test_a_held_commit_that_was_not_read_refuses_by_name():
    held = Holds((_hold("commit", G, G),))
    without = {commit_id: commit for commit_id, commit in GRAPH.items() if commit_id != G}
    with pytest.raises(IncompleteReadError, match=r"hold audit: commit 0{12}: commit 0*7, "):
        held.commits(_refs([("main", C)], commits=without))


def test_the_walk_begins_at_what_holds_were_made_on():
    held = Holds((_hold("commit", G, G), _hold("branch", "main", B), _hold("address", "data/x")))
    assert held.starting_commits == [B, G]


def test_the_holds_of_a_mark_are_told_by_its_facts():
    held = Holds((_hold("address", "data/s/x"), _hold("branch", "main", B, name="later")))
    again = Holds.of_figures(held.figures)
    assert again.figures == held.figures
    assert again.protecting(pa.array(["data/s/x"])).to_pylist() == [True]


def test_a_listing_that_comes_empty_once_does_not_let_go_of_what_is_held():
    class Forgetful(MemoryStore):
        asked = 0

        def list(self, prefix):
            self.asked += 1
            return super().list(prefix) if self.asked > 1 else iter(())

    store, made = Forgetful(), _hold("prefix", "data/s/")
    store.put(lakegc_keys.hold_key(made.name), made.to_json())
    assert holds.load(store).holds == (made,)


def _matches(pattern, path):
    """The same as `matching`, read off the words of the command's help."""
    if pattern == path:
        return True
    if pattern.startswith("/**/") and _matches(pattern[3:], path):
        return True
    if pattern.startswith("**"):
        rest = pattern.lstrip("*")
        return any(_matches(rest, path[at:]) for at in range(len(path) + 1))
    if pattern.startswith("*"):
        name = path.partition("/")[0]
        return any(_matches(pattern[1:], path[at:]) for at in range(len(name) + 1))
    return bool(path and pattern) and path[0] == pattern[0] and _matches(pattern[1:], path[1:])


_LETTERS = st.text(st.sampled_from("ab/.(\xe9"), max_size=3)


@given(
    st.lists(st.one_of(_LETTERS, st.sampled_from(["*", "**", "/**/"])), min_size=1, max_size=5),
    st.lists(st.text(st.sampled_from("ab/.(\xe9\n"), max_size=8), min_size=1),
)
def test_a_pattern_of_paths_matches_what_its_words_say(parts, paths):
    pattern = "".join(parts)
    found = matching(pa.array([path.encode() for path in paths]), pattern).to_pylist()
    for path, is_found in zip(paths, found, strict=True):
        # Doubt keeps: `**/` at the beginning stands for no folder, too.
        assert is_found or not _matches(pattern, path)
        assert is_found == _matches(pattern, path) or pattern.startswith("**/")
        assert not is_found or path.encode().startswith(beginning(pattern))


def test_a_hold_by_path_keeps_what_was_there_and_names_no_address(run):
    made = _add(run, "path", "models/**/final")
    held = holds.load(run.store)
    assert held.holds == (made,)
    assert (held.of_paths, held.of_addresses, held.starting_commits) == ((made,), (), [])
    assert Holds.of_figures(held.figures).of_paths[0].value == "models/**/final"
    paths = pa.array([b"models/a/final", b"models/\xff/final", b"models/final.csv"])
    words = "hold audit: path models/**/final"
    assert held.reasons_of_paths(paths).to_pylist() == [words, words, None]
    for wrong in ("", "models/", "a\ud800"):
        with pytest.raises(SettingsError):
            _add(run, "path", wrong, name="other")
