"""Dates of metaranges: from pages of a listing where these tell more than questions would."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_core.errors import NotFoundError, PermissionDeniedError
from spark_core.references.metaranges_written import metaranges_written_at
from spark_core.run import RunOptions
from spark_core.schemas import INSTANT
from spark_core.storage import ObjectInfo
from spark_core.storage.listing_rows import listing_batch
from tests.support.paged_store import PagedStore

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


def ago(days):
    return NOW - timedelta(days=days)


class Dated(PagedStore):
    """A store that lists in order, tells dates, and counts what it is asked."""

    def __init__(self, dates, size=1000):
        super().__init__(dates, size)
        self.dates = dates

    def pages(self, prefix, *, after=""):
        for page in super().pages(prefix, after=after):
            keys = page.rows.column("key").to_pylist()
            dates = pa.array([self.dates[key] for key in keys], INSTANT)
            yield replace(page, rows=listing_batch(keys, [1] * len(keys), dates))

    def head(self, key):
        with self._counting:
            self.requests["head"] += 1
        if key not in self.dates:
            raise NotFoundError(key)
        return ObjectInfo(key, 1, self.dates[key])


class Unordered(Dated):
    """The same, as a store that cannot list from a name on."""

    def pages(self, prefix, *, after=""):
        raise PermissionDeniedError("listing is refused")


def tables_of(number):
    """So many names of tables, each with a date of its own."""
    return {hashlib.sha256(str(one).encode()).hexdigest(): ago(one) for one in range(number)}


def written(store, ids):
    run = SimpleNamespace(store=store, options=RunOptions())
    return metaranges_written_at(run, "_lakefs")(sorted(ids))


@pytest.mark.parametrize(
    ("files", "wanted", "requests"),
    [
        (764, 101, {"list": 1}),
        (3_000, 101, {"list": 3}),
        # A page of 1,000 among 12,000 tells five of 101.
        (12_000, 101, {"list": 1, "head": 96}),
        (764, 15, {"head": 15}),
        (764, 0, {}),
    ],
)
def test_a_page_of_a_listing_tells_dates_where_it_tells_more_than_questions_would(
    files, wanted, requests
):
    dates = tables_of(files)
    names = list(dates)[:wanted]
    store = Dated(
        {f"_lakefs/{name}": when for name, when in dates.items()}
        | {"_lakefs/retention/gc/commits/x": NOW},
        size=1000,
    )
    assert written(store, names) == {name: dates[name] for name in names}
    assert dict(store.requests) == requests


def test_a_file_that_pages_do_not_show_is_asked_for_and_one_that_is_not_there_has_no_date():
    dates = tables_of(50)
    hidden, _missing, *seen = sorted(dates)
    store = Dated({f"_lakefs/{name}": dates[name] for name in [hidden, *seen]})
    store.answered = lambda _after, _number, page: [key for key in page if hidden not in key]
    assert written(store, dates) == {name: dates[name] for name in [hidden, *seen]}
    assert dict(store.requests) == {"list": 1, "head": 2}


def test_where_tables_cannot_be_listed_each_is_asked_for():
    dates = tables_of(50)
    store = Unordered({f"_lakefs/{name}": when for name, when in dates.items()})
    assert written(store, dates) == dates
    assert store.requests["head"] == 50


def test_an_answer_without_names_ends_the_listing():
    dates = tables_of(50)
    store = Dated({f"_lakefs/{name}": when for name, when in dates.items()}, size=20)
    store.answered = lambda _after, _number, _page: []
    assert written(store, dates) == dates
    assert dict(store.requests) == {"list": 1, "head": 50}
