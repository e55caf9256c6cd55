"""Why an object stays: pure functions on arrays."""

import pyarrow as pa
import pytest

from spark_core.addresses.address_hashes import ADDRESS_HASH, hashed
from spark_core.holds import Hold, Holds
from spark_core.references.held_paths import HELD
from spark_core.references.policies.staged_names import TAKEN
from spark_core.sweep.why_kept import KEPT, Kept, KeptRules, why_kept
from tests.support.written_run import NOW

A, B, C = "data/s/a", "data/s/b", "data/s/c"
NO_HOLDS = Holds(())
ADDRESSES = pa.schema([ADDRESS_HASH, pa.field("address", pa.string())])
NAMES = pa.schema([ADDRESS_HASH, *TAKEN])


def objects(*addresses, hashes=None):
    names = pa.array(addresses, pa.string())
    return pa.table([hashed(names) if hashes is None else hashes, names], schema=ADDRESSES)


def _named(rows, schema):
    """Rows of an address and its words."""
    words = pa.array([words for _, words in rows], pa.string())
    return pa.table([objects(*(address for address, _ in rows))["address_hash"], words], schema)


def asked(
    *addresses,
    rules=None,
    staged=(),
    committed=(),
    held_paths=(),
    names=(),
    path="a/b",
    hashes=None,
    **of_policy,
):
    """Say why objects stay, by the addresses of what refers to them."""
    branches = pa.array([branch for _, branch in names], pa.string())
    now = {
        "staged": objects(*staged).select(["address_hash"]),
        "committed": _named(committed, KEPT),
        "held_paths": _named(held_paths, HELD),
        "names": objects(*(address for address, _ in names))
        .append_column("branch", branches)
        .append_column("path", pa.repeat(path, len(branches)))
        .cast(NAMES),
        **{name: objects(*of_policy.get(name, ())) for name in ("own", "named", "in_no_commit")},
    }
    found = why_kept(objects(*addresses, hashes=hashes), now, rules or KeptRules(NO_HOLDS))
    return found.to_pylist()


def test_what_nothing_refers_to_may_go_and_of_several_reasons_the_least_is_told():
    assert asked(A, B, C, staged=[A, B], committed=[(B, "commit 2"), (B, "commit 1")]) == [
        "staged",
        "commit 1",
        None,
    ]
    assert asked() == []


def test_an_object_under_the_hash_of_one_that_something_refers_to_stays():
    same = hashed(pa.array([A, A]))
    assert asked(A, B, staged=[A], hashes=same) == ["staged"] * 2
    assert Kept.of(pa.table([same, ["b", "a"]], schema=KEPT)).why(same.to_numpy()).to_pylist() == [
        "a",
        "a",
    ]


def test_commits_keep_nothing_that_the_policy_names_and_what_is_staged_does():
    of_policy = {"own": [A, B, C], "named": [A, B]}
    rules = KeptRules(NO_HOLDS, not_named="why")
    committed = [(A, "commit"), (B, "commit"), (C, "commit")]
    assert asked(A, B, C, rules=rules, committed=committed, staged=[B], **of_policy) == [
        None,
        "staged",
        "not let go any more: why",
    ]


def test_an_object_that_only_shares_its_hash_with_one_that_a_policy_names_is_no_policy_s():
    same = hashed(pa.array([A, A]))
    found = asked(A, B, own=[A], named=[A], committed=[(A, "commit")], hashes=same)
    assert found == [None, "commit"]


STAGED = KeptRules(NO_HOLDS, frozenset(), "why", readings=2, may_be_staged=True)


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, None),
        ({"staged": [A] * 5}, "not let go any more: why"),
        ({"in_no_commit": []}, "not let go any more: why"),
        ({"committed": [(A, "commit")]}, "commit"),
        ({"names": []}, "not let go any more: why"),
        ({"own": []}, "staged"),
        (
            {
                "rules": KeptRules(
                    NO_HOLDS, frozenset(["dev"]), "why", readings=2, may_be_staged=True
                )
            },
            "not let go any more: a hold keeps what is staged on branch dev",
        ),
        (
            {"rules": KeptRules(NO_HOLDS, frozenset(), "why", readings=2)},
            "not let go any more: why",
        ),
    ],
)
def test_a_staged_object_goes_only_if_in_no_commit_and_due_under_as_many_names_as_were_read(
    changed, wanted
):
    usual = {
        "rules": STAGED,
        "own": [A],
        "in_no_commit": [A],
        "staged": [A] * 4,
        "names": [(A, "dev"), (A, "main")],
    }
    assert asked(A, **{**usual, **changed}) == [wanted]


def test_what_a_hold_keeps_by_a_path_stays_whatever_the_policy_names():
    kept = {"held_paths": [(A, "hold a: path m/**"), (A, "hold b: path m/*")]}
    assert asked(A, B, **kept) == ["hold a: path m/**", None]
    of_policy = {"own": [A, B], "named": [A, B], "committed": [(A, "commit 1")]}
    rules = KeptRules(NO_HOLDS, not_named="why")
    assert asked(A, B, rules=rules, **kept, **of_policy) == ["hold a: path m/**", None]


def test_what_is_staged_at_a_held_path_stays_though_a_rule_takes_its_staged_names():
    taken = {"own": [A], "in_no_commit": [A], "staged": [A], "names": [(A, "dev")]}
    held = Hold("m", "path", "m/**/final", None, "ann", NOW, "")
    for holds, stays in ((), False), ((held,), True):
        rules = KeptRules(Holds(holds), readings=1, may_be_staged=True)
        (found,) = asked(A, rules=rules, path="m/x/final", **taken)
        assert (found is not None) == stays
    assert "hold m: path m/**/final" in found
    assert asked(A, rules=rules, path="m/x/draft", **taken) == [None]
