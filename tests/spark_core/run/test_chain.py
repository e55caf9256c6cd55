"""The chain of a mark's tables: made one after the other, under one set of options."""

from dataclasses import replace

import pytest

from spark_core import mark
from spark_core.errors import ChainError
from spark_core.records import tables
from spark_core.run import chain
from tests.support.passing_mark import keep_slices, passing_mark
from tests.support.written_run import written_run


@pytest.fixture
def run(tmp_path):
    return written_run(tmp_path, spark=None).run


def _letting_tags_go(run):
    return replace(run, options=replace(run.options, tags_protect=False))


def test_tables_of_one_set_of_options_are_a_chain(run):
    manifests = passing_mark(run)
    chain.require_unbroken(run, [manifests[spec.name] for spec in tables.MARK_TABLES[:-1]])


def test_a_mark_does_not_go_on_under_other_options(run):
    manifests = passing_mark(run)
    with pytest.raises(ChainError, match=r"tags_protect was True, now it is False\. Mark again"):
        chain.require_unbroken(
            _letting_tags_go(run), [manifests[spec.name] for spec in tables.MARK_TABLES[:-1]]
        )


def test_commits_are_not_retained_under_other_options_than_the_listing_was_made_under(run):
    passing_mark(run)
    other = _letting_tags_go(run)
    with pytest.raises(ChainError, match="tags_protect was True, now it is False"):
        mark.retained_commits(other, other.load(tables.UNCOMMITTED_ADDRESSES))


def test_a_listing_that_kept_no_options_is_refused(run):
    kept = keep_slices(run)
    with pytest.raises(ChainError, match="flat was not kept, now it is False"):
        chain.require_same_options(run, replace(kept, facts={**kept.facts, "options": {}}))
