"""What a report says about getting objects back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core.errors import TransientError
from spark_core.report.how_to_undo import undo_words
from tests.support.written_run import NOW, written_run

GONE = {"data/s/a": (4, "deleted", None)}


@pytest.fixture
def written(tmp_path):
    return written_run(tmp_path, None)


def swept(written, **facts):
    manifest = written.sweep(GONE)
    return replace(manifest, facts={**manifest.facts, "deleted_objects": 1, **facts})


def test_objects_that_went_to_quarantine_are_said_to_come_back_until_when_and_how(written):
    manifest = swept(written, quarantine_days=30)
    words = undo_words(written.run, manifest)
    assert words == (
        "What was deleted was moved to quarantine, under "
        f"local://repo/_lakefs/retention/gc/quarantine/run_id={written.run.key}/. The first "
        f"house-keeping after {NOW + timedelta(days=30):%Y-%m-%d %H:%M} UTC deletes it for good; "
        "until then it takes up its space, and `lakegc restore repo 2026-11-20T02-00-00Z` brings "
        "it back."
    ), "true also of a purged one, whose report is read later"


def test_what_the_store_itself_keeps_is_said_in_its_words(written, monkeypatch):
    monkeypatch.setattr(written.run.store, "undelete_hint", lambda: "The bucket keeps versions.")
    assert undo_words(written.run, swept(written), just_swept=True) == (
        "The bucket keeps versions. As long as that holds, `lakegc restore repo "
        "2026-11-20T02-00-00Z` brings them back."
    )


def test_where_nothing_comes_back_nothing_is_promised(written, monkeypatch):
    assert undo_words(written.run, swept(written), just_swept=True) == ""
    assert (
        undo_words(
            written.run, swept(written, deleted_objects=0, quarantine_days=30), just_swept=True
        )
        == ""
    )

    def unsure():
        raise TransientError("the store did not answer")

    monkeypatch.setattr(written.run.store, "undelete_hint", unsure)
    assert undo_words(written.run, swept(written), just_swept=True) == ""


def test_a_page_that_was_made_later_promised_versions_that_nobody_kept_when_it_was_swept(
    written, monkeypatch
):
    manifest = swept(written)
    monkeypatch.setattr(written.run.store, "undelete_hint", lambda: "The bucket keeps versions.")
    assert undo_words(written.run, manifest) == ""
