"""An optimized run takes from the newest index that nothing speaks against, or says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from spark_core import __version__, lakegc_keys
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import ChainError
from spark_core.index import choosing
from spark_core.index.choosing import AUDIT, Clean, Index, choose, is_before, slice_seconds
from spark_core.index.saved import Saved
from spark_core.records import tables
from spark_core.records.confirmation import Confirmation
from spark_core.records.documents import seal
from spark_core.run import Run
from spark_core.storage.local import LocalStore
from tests.support.hidden_entries import NOW, HidingPlace
from tests.support.small_index import conclude, index_parts, leave_index, listed

OPTIONS: dict[str, Any] = {"optimized": True}


@pytest.fixture
def place(sandbox: Any) -> HidingPlace:
    place = HidingPlace(sandbox, None)
    place.upload(50, "old", b"old")
    place.upload(1.5, "new", b"new")
    return place


def indexed(place: HidingPlace, days: float = 3, **other: Any) -> tuple[Run, Saved]:
    run = place.run(days, **OPTIONS)
    slices, _ = listed(run)
    return run, leave_index(run, slices, **other)


def chosen(place: HidingPlace, days: float = 1, *, full: bool = False, **options: Any) -> Any:
    run = replace(place.run(days, **{**OPTIONS, **options}), full=full)
    run.begin(tables.NAMESPACE_SLICES)
    return choose(run)


def why(place: HidingPlace, **options: Any) -> str:
    found = chosen(place, **options)
    assert isinstance(found, Clean)
    return found.why


def test_the_last_mark_that_passed_is_taken_from(place: HidingPlace) -> None:
    _, saved = indexed(place)
    found = chosen(place)
    assert found == Index(saved, saved.closed_before)
    before = saved.started - timedelta(days=7, hours=1) - MAX_CLOCK_SKEW
    assert saved.closed_before == int(before.timestamp())


def test_slices_are_listed_that_are_new_open_or_tell_no_time(place: HidingPlace) -> None:
    _, saved = indexed(place)
    (old,) = {row for part in saved.slices for row in _slices_in(place, part)}
    index = Index(saved, saved.closed_before)
    seconds = slice_seconds(old)
    assert seconds is not None
    assert not index.lists(old)
    assert Index(saved, seconds).lists(old)
    assert not Index(saved, seconds + 1).lists(old)
    assert Index(replace(saved, open_slices=(old,)), saved.closed_before).lists(old)
    assert index.lists("")
    assert index.lists("!ab")
    # What a run lists and what the run before it wrote into the index are each other's rest.
    assert is_before(old, seconds + 1)
    assert not is_before(old, seconds)
    assert not is_before("!ab", seconds)


def _slices_in(place: HidingPlace, part: Any) -> set[str]:
    run = place.run(1, **OPTIONS)
    (batch,) = run.store.read_parquet(part.key)
    return set(batch.column("slice").to_pylist())


def test_a_run_that_is_not_to_be_optimized_asks_for_nothing(place: HidingPlace) -> None:
    indexed(place)
    run = place.run(1, optimized=False)
    run.begin(tables.NAMESPACE_SLICES)
    run.store.requests.clear()
    assert choose(run) == Clean("")
    assert not run.store.requests
    assert not choosing.saves(run)


def test_the_first_run_is_clean(place: HidingPlace) -> None:
    assert why(place) == "no mark of this repository has passed yet"


def test_a_clean_run_was_asked_for(place: HidingPlace) -> None:
    indexed(place)
    assert why(place, full=True) == "a clean run was asked for"


def test_other_options_decided(place: HidingPlace) -> None:
    indexed(place)
    assert "other options decided: flat was False, now it is True" in why(place, flat=True)


def test_another_version_read_what_is_in_it(place: HidingPlace) -> None:
    run, saved = indexed(place)
    conclude(run, saved=saved.digest, versions={"lakegc": "0.0.9"})
    assert f"lakegc 0.0.9 read what is in it, and this is {__version__}" in why(place)


def test_a_newer_run_exists(place: HidingPlace) -> None:
    indexed(place)
    newer = place.run(0.5, optimized=False)
    listed(newer)
    assert why(place) == f"run {newer.key} is newer than this one"


def test_each_of_so_many_runs_is_clean(place: HidingPlace) -> None:
    indexed(place, optimized_since=("2026-11-01T00-00-00Z",))
    assert why(place, full_every=2) == "each of 2 marks reads everything (full_every)"
    assert isinstance(chosen(place, full_every=3), Index)


def test_a_clock_was_set_back(place: HidingPlace) -> None:
    run, saved = indexed(place)
    conclude(run, saved=saved.digest, concluded_at=NOW)
    assert "it ended in the future: a clock was set back" in why(place)


def test_deleted_objects_were_brought_back_since(place: HidingPlace) -> None:
    run, saved = indexed(place)
    run.store.put(lakegc_keys.restored_key(saved.started + timedelta(hours=1)), b"")
    assert f"deleted objects were brought back since run {run.key}" in why(place)


def test_a_run_that_began_after_a_restore_is_not_called_the_earlier_one(place: HidingPlace) -> None:
    run, saved = indexed(place)
    at = saved.started - timedelta(minutes=4)
    run.store.put(lakegc_keys.restored_key(at), b"")
    assert why(place) == (
        f"deleted objects were brought back at {at.isoformat(timespec='seconds')}, and run "
        f"{run.key} began so soon after it that clocks do not prove that it listed them: no "
        "optimized run lists their slices"
    )


def test_objects_that_came_back_before_were_listed(place: HidingPlace) -> None:
    run, saved = indexed(place)
    run.store.put(lakegc_keys.restored_key(saved.started - timedelta(hours=1)), b"")
    assert isinstance(chosen(place), Index)


def _failed(place: HidingPlace, days: float, *, failed: str) -> Run:
    """Make an optimized run that ends, but for the verdict if no check is named."""
    run = place.run(days, **OPTIONS)
    _, figures = listed(run)
    assert figures.index is not None
    if failed:
        conclude(run, saved=None, failed=failed)
    return run


@pytest.mark.parametrize(
    ("failed", "words"),
    [("", "did not end"), ("expired_share_is_plausible", "did not pass its checks")],
)
def test_an_optimized_run_that_failed_makes_the_next_one_clean(
    place: HidingPlace, failed: str, words: str
) -> None:
    indexed(place)
    run = _failed(place, 2, failed=failed)
    assert why(place) == f"run {run.key}, an optimized one, {words}"


def test_a_clean_run_that_failed_is_passed_over(place: HidingPlace) -> None:
    run, _ = indexed(place)
    listed(place.run(2, optimized=False))
    found = chosen(place)
    assert isinstance(found, Index)
    assert found.saved.run == str(run.key)


def test_an_audit_blocks_until_somebody_has_confirmed_it(place: HidingPlace) -> None:
    indexed(place)
    run = place.run(2, optimized=False)
    listed(run)
    conclude(run, saved=None, failed=AUDIT)
    found = chosen(place)
    assert isinstance(found, Clean)
    assert found.blocked_by == (str(run.key),)
    assert f"confirm repo {AUDIT} --run {run.key}" in found.why
    understood = Confirmation("repo", str(run.key), AUDIT, "", "a test", "me", run.now())
    run.store.put(lakegc_keys.confirmation_key(run.key, AUDIT), understood.to_json())
    assert isinstance(chosen(place), Index)


def test_an_audit_that_the_saved_document_names_blocks_too(place: HidingPlace) -> None:
    indexed(place, blocked_by=("2026-11-01T00-00-00Z",))
    assert "run 2026-11-01T00-00-00Z found an object alive" in why(place)


def test_another_instance_left_it(place: HidingPlace) -> None:
    run, saved = indexed(place)
    conclude(run, saved=saved.digest, instance="another")
    assert why(place) == f"run {run.key} is of another instance of the repository"


def _delete_document(run: Run, _saved: Saved) -> None:
    run.store.delete([lakegc_keys.saved_key(run.key)])


def _damage_document(run: Run, _saved: Saved) -> None:
    key = lakegc_keys.saved_key(run.key)
    run.store.put(key, run.store.read(key).replace(b'"open_slices"', b'"open_slicez"'))


def _write_another_document(run: Run, saved: Saved) -> None:
    other = replace(saved, open_slices=("other",))
    run.store.put(lakegc_keys.saved_key(run.key), other.to_json())


def _write_an_earlier_format(run: Run, _saved: Saved) -> None:
    run.store.put(lakegc_keys.saved_key(run.key), b'{"format": 4}')


def _leave_out_the_endpoint(run: Run, saved: Saved) -> None:
    document = json.loads(saved.to_json())
    del document["endpoint"], document["sha256"]
    run.store.put(lakegc_keys.saved_key(run.key), seal(document))


def _name_none(run: Run, _saved: Saved) -> None:
    conclude(run, saved=None)


def _delete_file(run: Run, saved: Saved) -> None:
    run.store.delete([saved.slices[0].key])


def _cut_file(run: Run, saved: Saved) -> None:
    key = saved.slices[0].key
    run.store.put(key, run.store.read(key)[:-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_delete_document, "_saved.json"),
        (_damage_document, "its bytes are not those that were written"),
        (_write_another_document, "what it saved is not what its verdict names"),
        (_write_an_earlier_format, "was written in format 4"),
        (_leave_out_the_endpoint, "endpoint"),
        (_name_none, "it saved nothing"),
        (_delete_file, "is not there, and"),
        (_cut_file, "bytes were written"),
    ],
)
def test_an_index_that_is_not_as_it_was_left_is_a_miss(
    place: HidingPlace, damage: Callable[[Run, Saved], None], words: str
) -> None:
    run, saved = indexed(place)
    damage(run, saved)
    found = why(place)
    assert found.startswith(f"run {run.key} left no index to take from: ")
    assert words.removesuffix("bytes were written") in found


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        ("https://one.example.com", "https://two.example.com", "at https://two.example.com"),
        ("https://one.example.com", "", "at its own place"),
        (
            "https://one.example.com",
            "https://s3.us-east-1.amazonaws.com.example.com",
            "at https://s3.us-east-1.amazonaws.com.example.com",
        ),
    ],
)
def test_the_index_of_a_store_at_another_endpoint_is_a_miss(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch, then: str, now: str, words: str
) -> None:
    """A copy of a bucket, with the same repository and namespace, went its own way since."""
    monkeypatch.setattr(LocalStore, "endpoint_url", then)
    run, saved = indexed(place)
    assert saved.endpoint == then
    assert isinstance(chosen(place), Index)
    assert choosing.last_saved(place.run(1, **OPTIONS)) == saved
    monkeypatch.setattr(LocalStore, "endpoint_url", now)
    assert why(place) == (
        f"run {run.key} left no index to take from: the store was reached at {then} then, and is "
        f"{words}"
    )
    assert choosing.last_saved(place.run(1, **OPTIONS)) is None


def test_aws_is_one_place_whatever_its_endpoint(
    place: HidingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The region may come from the bucket one night and from the environment the next."""
    monkeypatch.setattr(LocalStore, "endpoint_url", "https://s3.eu-central-1.amazonaws.com")
    _, saved = indexed(place)
    assert saved.endpoint == ""
    monkeypatch.setattr(
        LocalStore, "endpoint_url", "https://s3-fips.dualstack.eu-central-1.amazonaws.com"
    )
    assert isinstance(chosen(place), Index)


def test_a_damaged_verdict_is_a_miss(place: HidingPlace) -> None:
    run, _ = indexed(place)
    key = lakegc_keys.verdict_key(run.key)
    run.store.put(key, run.store.read(key)[:-2])
    assert "_verdict.json" in why(place)


def test_later_tables_take_from_the_same_index_or_from_none(place: HidingPlace) -> None:
    before, saved = indexed(place)
    run = place.run(1, **OPTIONS)
    _, figures = listed(run)
    assert figures.index is not None
    found = choosing.index_of_mark(run)
    assert found == Index(saved, saved.closed_before)
    _write_another_document(before, saved)
    run.documents.clear()
    with pytest.raises(ChainError, match=f"what run {before.key} saved was changed since"):
        choosing.index_of_mark(run)


def test_a_clean_run_takes_from_none(place: HidingPlace) -> None:
    run = place.run(1, **OPTIONS)
    slices, _ = listed(run)
    assert choosing.index_of_mark(run) is None
    assert index_parts(slices)


def test_choosing_costs_few_requests(place: HidingPlace) -> None:
    indexed(place)
    run = place.run(1, **OPTIONS)
    run.begin(tables.NAMESPACE_SLICES)
    run.store.requests.clear()
    assert isinstance(choose(run), Index)
    # Verdict, document, and the listing of the folder.
    assert sum(run.store.requests.values()) <= 3
