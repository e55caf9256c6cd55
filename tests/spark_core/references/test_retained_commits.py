"""The expired commits whose rules reports tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from spark_core import schemas
from spark_core.model import Commit, Refs
from spark_core.references import retained_commits
from spark_core.references.commits import ReadCommits
from spark_core.retention.lines_of_parents import Expiry

NOW = datetime(2026, 11, 28, tzinfo=UTC)


def _commit(number: int, days_ago: int, metarange: str) -> Commit:
    made = NOW - timedelta(days=days_ago)
    return Commit(f"{number:064d}", (), made, metarange)


def _read(*commits: Commit, expired: list[Expiry]) -> ReadCommits:
    refs = Refs({commit.id: commit for commit in commits}, (), ())
    table = schemas.RETAINED_COMMITS.empty_table()
    return ReadCommits(None, refs, None, None, "walk", None, None, table, expired=expired)


def _rows(found: ReadCommits) -> list[tuple[str, str | None, int]]:
    table: pa.Table = retained_commits._last_kept(found)
    return [(row["commit_id"], row["branch"], row["retention_days"]) for row in table.to_pylist()]


def test_the_rule_that_kept_a_metarange_last_is_told_and_not_that_of_the_younger_commit():
    # main had it until 95 days ago; a branch that was deleted since had it for a week.
    main, feature = _commit(1, 200, "m"), _commit(2, 150, "m")
    found = _read(
        main,
        feature,
        expired=[
            Expiry(feature.id, None, 7, NOW - timedelta(days=150)),
            Expiry(main.id, "main", 90, NOW - timedelta(days=95)),
        ],
    )
    assert _rows(found) == [(main.id, "main", 90)]


def test_what_was_kept_last_comes_first_and_of_two_the_younger():
    one, two, three = _commit(1, 60, "a"), _commit(2, 50, "b"), _commit(3, 40, "b")
    found = _read(
        one,
        two,
        three,
        expired=[
            Expiry(one.id, "main", 30, NOW - timedelta(days=31)),
            Expiry(two.id, "main", 10, NOW - timedelta(days=40)),
            Expiry(three.id, "dev", 20, NOW - timedelta(days=50)),
        ],
    )
    assert _rows(found) == [(one.id, "main", 30), (three.id, "dev", 20)]
