"""End what sweeps left that died: whoever holds the lease after them closes their journals.

Until then the same command could go on with such a sweep. Nobody else ever does: its plan is old.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from spark_core import lakegc_keys
from spark_core.errors import ObjectExistsError
from spark_core.lock.held_lease import Lease
from spark_core.model import RunKey
from spark_core.records import journal, rows_aside
from spark_core.records.journal import JournalEnd
from spark_core.records.tables import DELETION_REPORT
from spark_core.run import Run
from spark_core.storage.listings import listed_together
from spark_core.sweep.plan import has_ended
from spark_core.sweep.quarantined import COPIES, quarantined

_NEVER = datetime.min.replace(tzinfo=UTC)


def dead_sweeps(run: Run) -> list[RunKey]:
    """Return the other runs whose sweep died, and whose journal nobody has ended; oldest first.

    Args:
        run: The run that holds the lease; else one of them may be at work.
    """
    files: dict[RunKey, dict[str, datetime]] = {}
    folders = (lakegc_keys.JOURNAL, DELETION_REPORT.folder)
    for batch in listed_together(run.store, lakegc_keys.ROOT, folders):
        for row in batch.to_pylist():
            if (key := lakegc_keys.run_of(row["key"])) not in (None, run.key):
                files.setdefault(key, {})[row["key"]] = row["last_modified"]
    begun = (key for key, modified in files.items() if journal.is_open(key, modified))
    return sorted(key for key in begun if not has_ended(run.store, key))


def end_journal(run: Run, held: Lease, dead: RunKey) -> JournalEnd:
    """End the journal of a sweep that died; none of its objects is touched.

    Args:
        run: The run that holds the lease.
        held: The lease. Who has it knows that no process of an earlier holder is at work.
        dead: The run of that sweep, of `dead_sweeps`.

    Returns:
        The end as it stands.

    Raises:
        LeaseLostError: If the lease is lost; then nothing was ended.
        LakegcError: If the journal or the quarantine cannot be read, or the store takes no end.
    """
    nothing_goes = rows_aside.target_of(run.store, run.key, COPIES)
    (counted, since), _ = quarantined(run, dead, nothing_goes, _NEVER)
    kept = timedelta(days=run.options.quarantine_days)
    end = JournalEnd(
        run=str(dead),
        ended_by=str(run.key),
        ended_at=run.now(),
        objects=counted["objects"],
        size_bytes=counted["size_bytes"],
        kept_seconds=int(kept.total_seconds()),
        first_until=since[0] + kept if since else None,
        until=since[-1] + kept if since else None,
    )
    held.beat()
    with suppress(ObjectExistsError):
        run.store.put_if_absent(journal.end_key(dead), end.to_json())
    return journal.ended(run.store, dead) or end
