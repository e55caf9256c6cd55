"""Runs of earlier days, as house-keeping meets them."""

from datetime import timedelta

from spark_core import lakegc_keys
from spark_core.model import RunKey
from spark_core.upkeep import house_keeping_result, prune_own_tables
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, Written

INTENT = f"intent-ab12.0.0.0.0-1-{'0' * 64}.parquet"
INDEX_FILES = ("slices", "trees", "ranges", "entries")


def prune(run):
    done = house_keeping_result.Pruned()
    prune_own_tables.prune(run, done)
    return done


def key_of_day(day):
    return RunKey.at(NOW - timedelta(days=day))


def at_day(run, day):
    return run.at(key_of_day(day))


def mark(run, day, *, concluded=True, reported=True, swept=False, moved=("data/s/x",)):
    """Store an earlier run, with its verdict, its report and its deletion report or without.

    The report tells of what it moved.
    """
    then = at_day(run, day)
    passing_mark(then)
    written = Written(then)
    if concluded:
        written.conclude()
    if swept:
        written.journal(dict.fromkeys(moved, 4), at=then.key.instant)
        written.sweep(dict.fromkeys(moved, (4, "deleted", None)))
    if reported:
        then.store.put(lakegc_keys.report_keys(then.key, swept=swept)["json"], b"{}")
    return then


def keys_of_day(run, day):
    return {
        key
        for batch in run.store.list(lakegc_keys.ROOT)
        for key in batch.column("key").to_pylist()
        if f"run_id={key_of_day(day)}/" in key
    }
