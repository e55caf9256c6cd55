"""Losses in which the server's scan did not show an entry, and too little was asked about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakegc_dagster.sandbox import refs
from spark_core.spark import placement
from tests.support.hidden_entries import HidingPlace

pytestmark = pytest.mark.spark


@pytest.fixture
def place(sandbox: Any, spark: Any) -> HidingPlace:
    return HidingPlace(sandbox, spark)


def test_34_a_size_that_a_client_said_hid_a_re_uploaded_twin(place: HidingPlace) -> None:
    place.committed(50, "p", b"ten bytes.")
    # The upload was compressed, and linked with the size of what it holds.
    twin = place.write(30, b"gzip", signed=True)
    place.stage(30, "p", twin, size=10, checksum=place.checksum("p"))
    # Its size is that of no entry, so no call is made for it.
    dead = place.upload(30, "scratch", b"garbage")
    place.upload(30, "scratch", b"staged")
    assert place.collect() == {dead}
    assert place.reads("p") == twin


def test_34_the_object_of_the_committed_entry_was_lost_and_its_repair_looked_dead(
    place: HidingPlace,
) -> None:
    older = place.upload(55, "scratch", b"same")
    place.upload(54, "scratch", b"other")
    lost = place.committed(40, "p")
    place.lose(lost)
    # An object of before, staged by hand in the place of the lost one.
    place.stage(30, "p", older, size=4, checksum=place.checksum("p"))
    assert place.collect() == set()
    assert place.reads("p") == older


def test_34_the_object_of_the_committed_entry_lay_elsewhere_and_its_repair_looked_dead(
    place: HidingPlace,
) -> None:
    twin = place.write(55, b"the content", signed=True)
    outside = f"local://{place.sandbox.blockstore.parent}/elsewhere/object"
    place.stage(40, "p", outside, size=0, checksum="said")
    place.commit(40)
    place.stage(30, "p", twin, size=0, checksum="said")
    assert place.collect() == set()
    assert place.reads("p") == twin


@pytest.mark.slow
@pytest.mark.parametrize(
    "happened",
    [
        test_34_the_object_of_the_committed_entry_was_lost_and_its_repair_looked_dead,
        test_34_the_object_of_the_committed_entry_lay_elsewhere_and_its_repair_looked_dead,
    ],
    ids=["lost", "elsewhere"],
)
def test_34_the_same_where_there_is_more_than_the_driver_holds(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch, happened: Callable[[HidingPlace], None]
) -> None:
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    happened(place)


def test_35_a_bound_in_time_was_taken_from_a_file_that_the_server_writes_again(
    place: HidingPlace,
) -> None:
    place.committed(40, "p")
    place.branch(40, "elsewhere")
    twin = place.upload(30, "p")
    place.commit(1, "elsewhere", allow_empty=True)
    assert place.collect() == set()
    assert place.reads("p") == twin


def test_35_a_bound_in_time_was_taken_from_a_date_to_come(place: HidingPlace) -> None:
    place.upload(40, "p")
    commit = place.commit(40, date=int(4e9))
    twin = place.upload(30, "p")
    # Its metarange was written again, too, so only the commit before it has a date.
    place.date(place.metarange(commit), 1)
    assert place.collect() == set()
    assert place.reads("p") == twin


def test_35_an_upload_began_before_the_head_was_made_and_ended_after_it(place: HidingPlace) -> None:
    slow = place.write(33, b"same", signed=False)
    place.committed(30, "p")
    place.stage(29, "p", slow, size=4, checksum=place.checksum("p"))
    assert place.collect() == set()
    assert place.reads("p") == slow


def test_35_a_hard_reset_hid_what_was_staged_long_before_the_head_was_made(
    place: HidingPlace,
) -> None:
    twin = place.with_a_twin_from_before()
    place.branch(19, "short-lived")
    place.committed(19, "more", b"more", branch="short-lived")
    place.hard_reset(18, "dev", "short-lived")
    place.hard_reset(17, "dev", "main")
    place.drop_branch(16, "short-lived")
    assert twin not in place.collect()
    assert place.reads("p", "dev") == twin


@pytest.mark.parametrize("is_ahead", [True, False], ids=["ahead", "aside"])
def test_35_a_hard_reset_since_the_last_run_hid_what_was_staged_before(
    place: HidingPlace, *, is_ahead: bool
) -> None:
    twin = place.with_a_twin_from_before()
    if not is_ahead:
        place.hard_reset(45, "dev", place.commit_aside(45, "dev"))
    place.mark(18)
    if not is_ahead:
        # So the commit of the reset did not exist at the last run.
        place.committed(16, "since", b"since")
    place.hard_reset(15, "dev", "main")
    assert place.reads("p", "dev") == twin
    assert twin not in place.collect(10)
    assert twin not in place.collect(), "the sign is noted, and holds as long as the branch rests"
    assert place.reads("p", "dev") == twin


def test_44_a_limit_that_was_reached_kept_everything_in_silence(place: HidingPlace) -> None:
    place.upload(50, "p")
    place.upload(50, "one", b"another size")
    place.commit(50)
    waiting = place.upload(30, "scratch")
    neither = place.upload(28, "scratch", b"a size that no head has")
    place.upload(27, "scratch", b"other")
    plan, facts = place.plan(twin_calls=0)
    assert plan == {neither}
    assert facts["unchecked_named"] == [waiting]


def test_64_a_branch_that_lists_do_not_show_was_not_asked_what_is_staged_on_it(
    place: HidingPlace,
) -> None:
    place.committed(50, "p")
    with place.ago(49):
        refs.create_branch(place.core, place.name, "unseen", "main", hidden=True)
    twin = place.upload(30, "p", branch="unseen")
    # By an absolute address, which the server's scan leaves out.
    linked = place.write(30, b"linked", signed=False)
    place.stage(29, "linked", linked, size=6, checksum="said", branch="unseen")
    assert place.collect() == set()
    assert place.reads("p", "unseen") == twin
    assert place.reads("linked", "unseen").endswith(linked)
