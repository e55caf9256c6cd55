"""Why an object may go: the texts are stored, so they stay as they are."""

from __future__ import annotations

from spark_core.fates import WhyMayGo


def test_reasons_of_tables_and_reports_of_old_are_still_known() -> None:
    assert [
        WhyMayGo(text).name
        for text in (
            "only in commits past their retention",
            "in no commit, and not staged",
            "in no retained commit, and not staged",
        )
    ] == ["ONLY_EXPIRED_COMMITS", "NEVER_COMMITTED", "UNREACHABLE"]
