"""Check what must hold before anything of a run is read, and keep what the server said then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from spark_core import __version__
from spark_core.clocks import (
    ClockReading,
    SystemClock,
    require_begun,
    require_near,
    require_not_set_back,
)
from spark_core.records.figures import PreflightFigures
from spark_core.reference_job import marks
from spark_core.run.preconditions import (
    SERVER_CLOCK,
    ask_branches,
    ask_grace_period,
    ask_kind_of_store,
    ask_neighbours,
    ask_store_clock,
    ask_table_prefix,
    require_writable,
    store_clock,
)
from spark_core.run.run import Run


def preflight(run: Run) -> PreflightFigures:
    """Check what must hold before anything is read, and refuse otherwise.

    The checks are made once per mark and kept in the first table's manifest, so the number of calls
    does not grow with anything.

    Returns:
        What the server said about itself and the repository.

    Raises:
        RepositoryStateError: If the repository is read-only or bare; if another one lives in its
            namespace, or may because the list of repositories is not whole; or if the server keeps
            it in another kind of store than its namespace says, or in none that it names.
        SettingsError: If `min_age` is below the server's grace period.
        UnsafePlanError: If the clock of the server or of the store is more than `MAX_CLOCK_SKEW`
            from this machine's, or the run was begun by a clock that was so far ahead of theirs and
            was set right since.
        NotFoundError: If the run is to stay within a mark of lakeFS's own job that does not exist.
        UnsafePlanError: If that mark is of a failed run.
    """
    repository, server = run.repository, run.server
    if run.reference_mark is not None:
        # An error in that mark is shown before this run's own long mark, not after it.
        marks.load(run.store, run.reference_mark)
    require_writable(repository)
    config = ask_kind_of_store(server, repository, run.namespace)
    grace = ask_grace_period(server, repository, run.options)
    branches = ask_branches(server, repository)
    compared = require_alone(run)
    prefix = ask_table_prefix(server, repository)
    readings = _ask_clocks(run)
    return PreflightFigures(
        repository={**asdict(repository), "creation_date": repository.creation_date.isoformat()},
        instance=run.instance,
        cutoff=run.cutoff.isoformat(),
        options=run.deciding_options,
        min_age_seconds=int(run.options.min_age.total_seconds()),
        unsafe_min_age=run.options.min_age < grace,
        grace_period_seconds=int(grace.total_seconds()),
        branches=len(branches),
        repositories=compared,
        overlapping_repositories=(),
        table_prefix=prefix,
        may_compact=config.may_compact or None,
        blockstore_type=config.blockstore_type,
        clock_skew_seconds={
            whose: None if reading is None else reading.skew.total_seconds()
            for whose, reading in readings.items()
        },
        reference_mark=run.reference_mark,
        lakegc=__version__,
    )


def _ask_clocks(run: Run) -> Mapping[str, ClockReading | None]:
    """Refuse if the clocks do not agree now, or did not when the run began.

    Readings are compared with what the machine shows now; the key and the cutoff are what it showed
    then.

    Returns:
        The readings of the clocks of `server` and `store`.
    """
    clock = run.environment.clock
    of_server = run.server.clock_reading
    require_near(of_server, SERVER_CLOCK)
    of_store = ask_store_clock(run.store)
    # A clock that somebody moves by hand shows what it was told, and no reading is compared with
    # it.
    if isinstance(clock, SystemClock):
        require_not_set_back(clock.ahead)
        readings = {SERVER_CLOCK: of_server, store_clock(run.store): of_store}
        require_begun(run.key.instant, clock.wall(), readings)
    return {"server": of_server, "store": of_store}


def require_alone(run: Run) -> int:
    """Refuse if the server shows another repository in, around or inside the namespace (safety 11).

    The question is asked before a mark, and again before its sweep: a repository that was made in
    between would read objects that this repository no longer needs.

    Returns:
        With how many repositories it was compared, its own included.

    Raises:
        RepositoryStateError: Naming both, or that the list of repositories is not whole.
    """
    return ask_neighbours(run.server, run.repository, run.namespace, run.environment.endpoint_of)
