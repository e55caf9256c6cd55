"""A file with a flipped bit or a missing end is refused by name, or read as if it were intact."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_core import graveler, holds, lakegc_keys, schemas
from spark_core.addresses.namespace import Namespace
from spark_core.checks import confirming, sweepable, verdict
from spark_core.errors import CorruptTableError
from spark_core.holds import Hold
from spark_core.lakefs import read_retained, read_uncommitted
from spark_core.lock import lease_log
from spark_core.lock.lease_log import LeaseRecord, Owner
from spark_core.model import RetentionRules
from spark_core.records import reading, tables
from spark_core.records.journal import Journal
from spark_core.reference_job import marks
from spark_core.retention import merge, retained_commits, unknown_commits
from spark_core.storage import ObjectStore, StoreOptions, open_store
from tests.support import golden
from tests.support.damage import Answers, damages
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, written_run

SEED = int(os.environ.get("LAKEGC_TEST_SEED", "20261121"))
FEW, MANY = 40, 1_000
SHARE = "expired_share_is_plausible"


@dataclass(frozen=True)
class Subject:
    """One intact file, and what reads it.

    Attributes:
        names: An error names it by one of these.
        data: Its bytes.
        read: Takes the bytes of the file; returns a comparable result.
        keeps_more: Says of a different result that it can only let go of less.
    """

    names: tuple[str, ...]
    data: bytes
    read: Callable[[bytes], Any]
    keeps_more: Callable[[Any], bool] = lambda _: False


@dataclass
class Bench:
    """The directory of one test, in which the subjects of a kind are made."""

    folder: Path

    def store(self, name: str) -> ObjectStore:
        """Open a recorded repository."""
        golden.unpack(name, self.folder).rename(self.folder / name)
        return open_store(
            Namespace.parse(f"local://{name}", server_path="/bs"),
            StoreOptions(local_path=str(self.folder)),
        )

    def run(self):
        """Open a run without any tables."""
        return written_run(self.folder, spark=None).run


def put_back(store: ObjectStore, key: str, made: Subject) -> Subject:
    """Return a subject whose object is whole again after each reading."""

    def read(data: bytes) -> Any:
        try:
            return made.read(data)
        finally:
            store.put(key, made.data)

    return Subject(made.names, made.data, read)


def stored(
    store: ObjectStore, key: str, read: Callable[[], Any], *names: str, **judged: Any
) -> Subject:
    """Make a subject from an object of the store."""

    def replaced(data: bytes) -> Any:
        store.put(key, data)
        return read()

    return Subject((key, *names), store.read(key), replaced, **judged)


def recorded_refs(name: str, store: ObjectStore):
    ids = golden.server(name)["refs_dump"]["refs"]
    return graveler.read_refs(
        lambda id_: store.read(f"_lakefs/{id_}"),
        commits_metarange_id=ids["commits_meta_range_id"],
        branches_metarange_id=ids["branches_meta_range_id"],
        tags_metarange_id=ids["tags_meta_range_id"],
    )


def metaranges(store: ObjectStore, name: str) -> list[str]:
    commits = golden.expected(name)["commits"].values()
    ids = sorted({commit["metarange_id"] for commit in commits if commit["metarange_id"]})
    return [id_ for id_ in ids if store.exists(f"_lakefs/{id_}")]


def _metaranges(bench: Bench) -> list[Subject]:
    subjects = []
    for name in ("many-ranges", "merges"):
        store = bench.store(name)
        subjects += [
            Subject(
                (id_,),
                store.read(f"_lakefs/{id_}"),
                lambda data, id_=id_: graveler.read_metarange(data, name=id_, expected_id=id_),
            )
            for id_ in metaranges(store, name)[:4]
        ]
    return subjects


def _ranges(bench: Bench) -> list[Subject]:
    subjects = []
    for name in ("many-ranges", "merges", "s3-features"):
        store = bench.store(name)
        found = {}
        for id_ in metaranges(store, name):
            table = graveler.read_metarange(store.read(f"_lakefs/{id_}"), name=id_, expected_id=id_)
            found |= {row["range_id"]: row["count"] for row in table.to_pylist()}
        for id_, count in sorted(found.items())[:4]:
            if store.exists(f"_lakefs/{id_}"):
                subjects.append(
                    Subject(
                        (id_,),
                        store.read(f"_lakefs/{id_}"),
                        lambda data, id_=id_, count=count: graveler.read_range(
                            data, name=id_, expected_count=count, expected_id=id_
                        ),
                    )
                )
    return subjects


def _dumps(bench: Bench) -> list[Subject]:
    name = "merges"
    store, ids = bench.store(name), golden.server(name)["refs_dump"]["refs"]
    files: dict[str, bytes] = {}

    def read(id_: str) -> bytes:
        return files.setdefault(id_, store.read(f"_lakefs/{id_}"))

    def refs(fetch: Callable[[str], bytes]) -> Any:
        return graveler.read_refs(
            fetch,
            commits_metarange_id=ids["commits_meta_range_id"],
            branches_metarange_id=ids["branches_meta_range_id"],
            tags_metarange_id=ids["tags_meta_range_id"],
        )

    refs(read)
    return [
        Subject((id_,), data, lambda damaged, id_=id_: refs({**files, id_: damaged}.__getitem__))
        for id_, data in files.items()
    ]


def _uncommitted(bench: Bench) -> list[Subject]:
    store = bench.run().store
    subjects = []
    for path in sorted((golden.DATA / "gc-files/paged/uncommitted").rglob("dc0*")):
        key = f"_lakefs/retention/gc/uncommitted/x/uncommitted/{path.name}"
        store.put(key, path.read_bytes())
        subjects.append(
            stored(
                store,
                key,
                # Only addresses decide: when an entry was staged is kept for people.
                lambda key=key: sorted(
                    address
                    for batch in read_uncommitted(store, key)
                    for address in batch.column("address").to_pylist()
                ),
            )
        )
    return subjects


def _retained(bench: Bench) -> list[Subject]:
    """The lists after they are united with lakegc's own reading, as in every mark with a dump."""
    subjects = []
    for name in ("docs-2022-03-31", "merges"):
        store = bench.store(name)
        refs = recorded_refs(name, store)
        entry = next(
            entry for entry in golden.expected(name)["retention"] if "server_run_id" in entry
        )
        run_id = entry["server_run_id"]
        ours = retained_commits(refs, RetentionRules(default_retention_days=1), NOW)

        def united(store=store, run_id=run_id, ours=ours, refs=refs) -> Any:
            rows = read_retained(store, run_id)
            kept = (
                merge(ours, rows, refs).select(["commit_id", "metarange_id", "is_head"]).to_pylist()
            )
            return {
                (row["commit_id"], row["metarange_id"], row["is_head"]) for row in kept
            }, unknown_commits(rows, refs)

        key = f"_lakefs/retention/gc/commits/run_id={run_id}/commits.csv"
        mine = {(kept.commit_id, refs.commits[kept.commit_id].metarange_id) for kept in ours}
        subjects.append(
            stored(
                store,
                key,
                united,
                "the server's list",
                keeps_more=lambda found, mine=mine: mine <= {row[:2] for row in found[0]},
            )
        )
    return subjects


def _parts(bench: Bench) -> list[Subject]:
    run = bench.run()
    manifest = passing_mark(
        run, expired=[f"data/{number % 3}/{number:04}" for number in range(300)]
    )["expired_addresses"]
    return [
        stored(
            run.store,
            part.key,
            lambda part=part: pa.Table.from_batches(
                reading.read_part(run.store, schemas.EXPIRED_ADDRESSES, part)
            ),
        )
        for part in manifest.parts
    ]


def _lock(bench: Bench, keys: Callable[[Any], Sequence[tuple[str, str]]]) -> list[Subject]:
    """The first check of a sweep, with one of its files damaged."""
    run = bench.run()
    passing_mark(run, expired_addresses={"expired_objects": 9_000})
    verdict.conclude(run)
    confirming.confirm(run, SHARE, who="ann@desk")

    def subject(key: str, name: str) -> Subject:
        made = stored(run.store, key, lambda: sweepable.require_sweepable(run)[1].manifest, name)
        return put_back(run.store, key, made)

    return [subject(key, name) for key, name in keys(run)]


def _manifests(bench: Bench) -> list[Subject]:
    return _lock(
        bench,
        lambda run: [
            (tables.manifest_key(spec, run.key), spec.name) for spec in tables.MARK_TABLES
        ],
    )


def _manifests_under_way(bench: Bench) -> list[Subject]:
    """Manifests as the later steps of a mark read them in another process, before a verdict binds
    them. This process has them in memory.
    """
    run = bench.run()
    passing_mark(run)
    return [
        stored(
            run.store,
            tables.manifest_key(spec, run.key),
            lambda spec=spec: run.load(spec, anew=True).manifest,
        )
        for spec in tables.MARK_TABLES
    ]


def _verdicts(bench: Bench) -> list[Subject]:
    return _lock(bench, lambda run: [(lakegc_keys.verdict_key(run.key), "the verdict")])


def _confirmations(bench: Bench) -> list[Subject]:
    return _lock(
        bench, lambda run: [(lakegc_keys.confirmation_key(run.key, SHARE), "the confirmation")]
    )


def _journal(bench: Bench) -> tuple[Journal, Any]:
    run = bench.run()
    kept = Journal(run.store, str(run.key), "5" * 64)
    assert not kept.bind(run.instance)
    return kept, run


def _journals(bench: Bench) -> list[Subject]:
    kept, _ = _journal(bench)
    for kind, outcome in ((kept.intend, "intended"), (kept.conclude, "deleted")):
        rows = [
            {
                "address": f"data/{number}",
                "size_bytes": number,
                "outcome": outcome,
                "error": None,
                "at": NOW,
            }
            for number in range(200)
        ]
        kind(
            "ab.1.0.0.0",
            pa.Table.from_pylist(rows, schema=schemas.JOURNAL).combine_chunks().to_batches()[0],
        )
    return [
        stored(kept.store, part.key, lambda part=part: kept.read(part)) for part in kept.parts()
    ]


def _plans(bench: Bench) -> list[Subject]:
    kept, run = _journal(bench)
    return [
        stored(
            kept.store,
            f"{kept.folder}_plan.json",
            lambda: kept.bind(run.instance),
            "its journal is of",
        )
    ]


def _leases(bench: Bench) -> list[Subject]:
    run = bench.run()
    owner = Owner.here(run, "sweep")
    records = [
        LeaseRecord(1, 0, "held", owner, NOW, NOW, NOW),
        LeaseRecord(1, 1, "taken", owner, NOW, NOW, NOW, taken_by=owner, earlier_until=NOW),
    ]
    subjects = []
    for record in records:
        run.store.put(record.key, record.to_json())
        subjects.append(
            stored(
                run.store,
                record.key,
                lambda record=record: lease_log.LeaseRecord.from_json(
                    run.store.read(record.key), name=record.key
                ),
            )
        )
    return subjects


def _holds(bench: Bench) -> list[Subject]:
    run = bench.run()
    made = [
        Hold("audit", "prefix", "data/slice/", None, "ann@desk", NOW, "für die Prüfung"),
        Hold("release", "tag", "v1", "ab" * 32, "ann@desk", NOW, ""),
    ]
    for hold in made:
        run.store.put(lakegc_keys.hold_key(hold.name), hold.to_json())

    def subject(key: str) -> Subject:
        made = stored(run.store, key, lambda: holds.load(run.store))
        return put_back(run.store, key, made)

    return [subject(lakegc_keys.hold_key(hold.name)) for hold in made]


KINDS: dict[str, Callable[[Bench], list[Subject]]] = {
    "range": _ranges,
    "metarange": _metaranges,
    "table of a refs dump": _dumps,
    "server's staged entries": _uncommitted,
    "server's retained commits": _retained,
    "part of a table": _parts,
    "manifest": _manifests,
    "manifest of a mark under way": _manifests_under_way,
    "verdict": _verdicts,
    "confirmation": _confirmations,
    "part of a journal": _journals,
    "plan of a journal": _plans,
    "record of a lease": _leases,
    "hold": _holds,
}


def damaged(kind: str, folder: Path, number: int) -> Answers:
    """Damage the files of a kind a number of times, and read each."""
    subjects, answers = KINDS[kind](Bench(folder)), Answers()
    for at, subject in enumerate(subjects):
        intact = subject.read(subject.data)
        turns = number // len(subjects) + (at < number % len(subjects))
        for damage in damages(subject.data, turns, seed=SEED):
            answers.ask(
                damage,
                lambda damage=damage, subject=subject: subject.read(damage.data),
                intact,
                names=subject.names,
                keeps_more=subject.keeps_more,
            )
    return answers


def _require_none_wrong(kind: str, folder: Path, number: int, record_property) -> None:
    answers = damaged(kind, folder, number)
    record_property("figures", f"damaged files, {number} of kind {kind!r}, seed {SEED}: {answers}")
    assert not answers.wrong, f"seed {SEED}: {answers.wrong[:5]}"
    assert answers.refused.total() + answers.unchanged + answers.more == number


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused_by_name_or_read_unchanged(kind, tmp_path, record_property):
    _require_none_wrong(kind, tmp_path, FEW, record_property)


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_damages_of_each_kind_are_refused_by_name_or_read_unchanged(
    kind, tmp_path, record_property
):
    _require_none_wrong(kind, tmp_path, MANY, record_property)


def test_a_column_whose_name_is_no_text_is_refused_in_a_mark_of_the_servers_job(tmp_path):
    store, key = (
        Bench(tmp_path).run().store,
        "_lakefs/retention/gc/unified/x/deleted/part-0.parquet",
    )
    store.write_parquet(key, [], marks.ADDRESSES)
    store.put(key, store.read(key).replace(b"address", b"addr\xe5ss"))
    with pytest.raises(CorruptTableError, match=rf"{key}.*no sound Parquet file"):
        list(marks._describe(store, 0, [key]))
