"""The conformance suite of moves into quarantine, a part of `store_conformance`."""

from __future__ import annotations

import pytest

from spark_core.storage import DeleteOutcome
from spark_core.sweep import quarantine
from tests.support.paces import Called

RUN = "2026-11-20T02-00-00Z"


class KilledError(BaseException):
    """The process ended here."""


def moved(*addresses: str) -> list[DeleteOutcome]:
    return [DeleteOutcome(address, "deleted") for address in addresses]


class MoveConformance:
    """`quarantine.move`, with the fixtures of `StoreConformance`."""

    def test_what_is_moved_lies_in_quarantine_and_nowhere_else(self, store, outside):
        content = {f"data/s/{number}": bytes([number]) * number for number in range(5)}
        for key, data in content.items():
            outside.put(key, data)
        outside.put("data/s/live", b"live")
        asked = [*content, "data/s/none", "data/s/3"]
        outcomes = quarantine.move(store, RUN, asked)
        assert outcomes == [
            *moved(*content),
            DeleteOutcome("data/s/none", "already_gone"),
            *moved("data/s/3"),
        ]
        assert outside.keys() == {"data/s/live", *(quarantine.key_of(RUN, key) for key in content)}
        assert {key: store.read(quarantine.key_of(RUN, key)) for key in content} == content

    def test_a_move_that_was_killed_before_the_originals_went_is_ended_by_the_next_one(
        self, store, outside, monkeypatch
    ):
        keys = ["data/s/a", "data/s/b", "data/s/c"]
        for key in keys:
            outside.put(key, key.encode())

        def killed(*_given, **_more):
            raise KilledError

        with monkeypatch.context() as patched:
            patched.setattr(store, "delete_first_names", killed)
            with pytest.raises(KilledError):
                quarantine.move(store, RUN, keys)
        assert outside.keys() == {*keys, *(quarantine.key_of(RUN, key) for key in keys)}
        outside.remove("data/s/b")
        assert quarantine.move(store, RUN, keys) == moved(*keys)
        assert outside.keys() == {quarantine.key_of(RUN, key) for key in keys}
        assert quarantine.move(store, RUN, keys) == moved(*keys)
        assert {store.read(quarantine.key_of(RUN, key)) for key in keys} == {
            key.encode() for key in keys
        }

    @pytest.mark.parametrize(
        "other", [b"0123456789", b"longer than that"], ids=["same size", "longer"]
    )
    def test_another_object_in_quarantine_keeps_the_original_where_it_is(
        self, store, outside, other
    ):
        outside.put("data/s/a", b"9876543210")
        outside.put(quarantine.key_of(RUN, "data/s/a"), other)
        (outcome,) = quarantine.move(store, RUN, ["data/s/a"])
        assert outcome.outcome == "failed"
        assert "another object lies in quarantine" in outcome.error
        assert store.read("data/s/a") == b"9876543210"
        assert store.read(quarantine.key_of(RUN, "data/s/a")) == other

    def test_an_original_whose_copy_came_out_wrong_stays_and_its_neighbours_go(
        self, store, outside, faults
    ):
        for key in ("data/s/a", "data/s/b"):
            outside.put(key, b"9876543210")
        wrong = quarantine.key_of(RUN, "data/s/a")
        faults.after_copy(lambda: outside.put(wrong, b"98765"))
        first = quarantine.move(store, RUN, ["data/s/a"])[0]
        assert (first.outcome, "the copy is not what was to be copied" in first.error) == (
            "failed",
            True,
        )
        assert outside.keys() == {"data/s/a", "data/s/b"}
        assert quarantine.move(store, RUN, ["data/s/a", "data/s/b"]) == moved(
            "data/s/a", "data/s/b"
        )

    def test_an_original_that_the_store_does_not_let_go_stays_and_is_told(
        self, store, outside, faults
    ):
        for key in ("data/s/a", "data/s/b"):
            outside.put(key, b"x")
        faults.refuse("data/s/a")
        outcomes = quarantine.move(store, RUN, ["data/s/a", "data/s/b"])
        assert [outcome.outcome for outcome in outcomes] == ["refused", "deleted"]
        assert {"data/s/a", quarantine.key_of(RUN, "data/s/b")} <= outside.keys()

    def test_originals_stay_when_the_time_is_over_after_the_copies(self, store, outside):
        outside.put("data/s/a", b"x")

        def over():
            raise KilledError

        with pytest.raises(KilledError):
            quarantine.move(store, RUN, ["data/s/a"], pace=Called(over))
        assert outside.keys() == {"data/s/a", quarantine.key_of(RUN, "data/s/a")}
        assert quarantine.move(store, RUN, ["data/s/a"]) == moved("data/s/a")

    @pytest.mark.parametrize(
        "key", ["_lakefs/dummy", "other", "data/a/../b", "data//x", "data/", "data/s/_lakefs/x", ""]
    )
    def test_what_no_sweep_may_touch_is_not_moved(self, store, outside, key):
        outside.put("_lakefs/dummy", b"x")
        (outcome,) = quarantine.move(store, RUN, [key])
        assert outcome.outcome == "refused"
        assert outside.keys() == {"_lakefs/dummy"}
