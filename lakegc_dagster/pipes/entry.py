"""The program that works where Dagster is not: it makes what it is asked for, and tells of it.

It needs the engine and `dagster_pipes`. A cluster may be given this file alone:

    spark-submit entry.py            # Dagster's pipes are in the environment, or arguments

A refusal is told like everything else, so that Dagster can show its sentence: the program ends with
0 whenever it could tell how the run ended.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dagster_pipes import (
    PipesCliArgsParamsLoader,
    PipesContext,
    PipesContextLoader,
    PipesDbfsContextLoader,
    PipesDbfsMessageWriter,
    PipesMessageWriter,
    PipesS3ContextLoader,
    PipesS3MessageWriter,
    open_dagster_pipes,
)

from spark_core import closed_runs
from spark_core import mark_and_sweep as collect
from spark_core.checks.policies import check_policy
from spark_core.checks_of_stored_tables import judge
from spark_core.errors import LakegcError
from spark_core.model import RunKey
from spark_core.phases import (
    NOTHING_BY_HOUSE_KEEPING,
    NOTHING_BY_THIS_SWEEP,
    NOTHING_DELETED,
    SWEEP_STANDS,
    phase,
)
from spark_core.records import tables
from spark_core.records.manifest import ENCLOSED, Manifest
from spark_core.records.reading import StoredTable
from spark_core.records.tables import TableSpec
from spark_core.records.writing import Draft
from spark_core.run import Run, open_run
from spark_core.run.local_path import page_after, page_to_open
from spark_core.settings import Settings, load_settings
from spark_core.settings.environment import open_environment, session_of
from spark_core.settings.file import PREFIX, Beside
from spark_core.spark import placement
from spark_core.spark.placement import default_master
from spark_core.upkeep import house_keeping

if TYPE_CHECKING:
    from spark_core.spark.session import Session

# Under this name Dagster sends what is asked.
ASKED = "lakegc"
VERDICT, HOUSE_KEEPING = "verdict", "house_keeping"
_CHECKED = {
    **{spec.name: spec for spec in tables.MARK_TABLES},
    VERDICT: tables.EXPIRED_ADDRESSES,
    tables.DELETION_REPORT.name: tables.DELETION_REPORT,
}
_MARK = [spec.name for spec in tables.MARK_TABLES]
# In the order in which they are made.
ASSETS = (
    *_MARK[:-1],
    tables.POLICY_EXPIRATIONS.name,
    _MARK[-1],
    VERDICT,
    tables.DELETION_REPORT.name,
    HOUSE_KEEPING,
)
Told: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """What Dagster asks for; JSON values only.

    Attributes:
        settings: The document of the settings, without secrets.
        environment: Names of the variables by which the environment here says those, if need be.
        file: Their file, from whose folder relative paths begin; None when there was none.
        repository: Repository id.
        run: Run key.
        assets: Names of the assets to make.
        checks: Names of the assets whose checks are to be made.
        options: What a person asks of the run, as arguments of `open_run`.
        is_backfill: Whether no sweep may begin, and no house is kept.
        made: Names of the assets that an earlier try of this request made.
    """

    settings: Mapping[str, Any]
    environment: Sequence[str]
    file: str | None
    repository: str
    run: str
    assets: Sequence[str]
    checks: Sequence[str]
    options: Mapping[str, Any]
    is_backfill: bool = False
    made: Sequence[str] = ()


def main() -> int:
    """Do what Dagster asks for; 0 if it was told how that ended."""
    with _pipes() as pipes:
        told = pipes.report_custom_message
        try:
            asked = Asked(**pipes.get_extra(ASKED))
            with phase(NOTHING_DELETED):
                _carry_out(_opened(asked), asked, pipes)
        except LakegcError as error:
            if error.__cause__ is not None:
                # The channel takes no exception, and the terminal here may be nobody's.
                pipes.log.warning("%s", "".join(traceback.format_exception(error.__cause__)))
            told(told_of(error))
    return 0


def told_of(error: LakegcError) -> Mapping[str, str | None]:
    """Return what is told of an error: its class is the nearest one of the tree, which all know."""
    return {
        "error": error.kind,
        "found": error.found,
        "next_step": error.next_step,
        "state": error.state,
    }


def _pipes() -> PipesContext:
    """Open the pipes by the ways that the arguments name; the usual ones by the environment."""
    ways = argparse.ArgumentParser(allow_abbrev=False)
    ways.add_argument(
        "--context", choices=("s3", "dbfs"), help="where Dagster has put what it asks"
    )
    ways.add_argument("--messages", choices=("s3", "dbfs"), help="where Dagster reads")
    # Glue and Dagster have arguments of their own among them.
    chosen, _ = ways.parse_known_args()
    arguments = PipesCliArgsParamsLoader()  # type: ignore[no-untyped-call]
    return open_dagster_pipes(
        context_loader=_loader(chosen.context),
        message_writer=_writer(chosen.messages),
        params_loader=arguments if arguments.is_dagster_pipes_process() else None,
    )


def _loader(way: str | None) -> PipesContextLoader | None:
    if way == "s3":
        return PipesS3ContextLoader(_s3())
    return PipesDbfsContextLoader() if way == "dbfs" else None


def _writer(way: str | None) -> PipesMessageWriter[Any] | None:
    if way == "s3":
        return PipesS3MessageWriter(_s3())
    return PipesDbfsMessageWriter() if way == "dbfs" else None


def _s3() -> Any:
    import boto3

    return boto3.client("s3")


def _opened(asked: Asked) -> Run:
    here = {
        name: said
        for name, said in os.environ.items()
        if name in asked.environment or not name.startswith(PREFIX)
    }
    settings = load_settings(env=here, beside=Beside("Dagster", asked.settings))
    settings._file = None if asked.file is None else Path(asked.file)  # noqa: SLF001 - as in loading
    environment = open_environment(settings, partial(_session, settings), origin="Dagster")
    if default_master() is None:
        # YARN takes a program that never asks for its session for one that failed.
        environment.spark()
    options = settings.run_options(asked.repository)
    return open_run(
        environment, asked.repository, RunKey.parse(asked.run), options, **asked.options
    )


def _session(settings: Settings) -> Session:
    """Return the session; what `spark-submit` was given wins over the settings."""
    submitted: dict[str, str] = {}
    if default_master() is None:
        from spark_core.spark.java import submitted_properties

        submitted, _ = submitted_properties({})
    return session_of(settings, {**submitted, "spark.sql.session.timeZone": "UTC"})


def _carry_out(run: Run, asked: Asked, pipes: PipesContext) -> None:
    """Make what is asked in its order, up to the first check that does not let the run go on."""
    repeated: dict[str, str] = {}
    made: dict[str, Callable[[], Told]] = {
        **{spec.name: partial(_table, run, spec) for spec in tables.MARK_TABLES},
        tables.POLICY_EXPIRATIONS.name: partial(_policy, run),
        VERDICT: partial(_verdict, run, again=tables.EXPIRED_ADDRESSES.name in asked.made),
        tables.DELETION_REPORT.name: lambda: _report(run, pipes, asked, repeated),
        HOUSE_KEEPING: lambda: _house(run, asked, repeated),
    }
    for name in ASSETS:
        if name in asked.assets:
            pipes.log.info("%s of %s, run %s", name, asked.repository, asked.run)
            before = placement.work_so_far()
            told = dict(made[name]())
            if told.get("repeated") and name not in asked.made:
                repeated[name] = told["repeated"]
            told["repeated"] = repeated.get(name)
            told["worked"] = str(placement.work_so_far().since(before))
            pipes.report_custom_message({"asset": name, **told})
        if name in asked.checks and not _check(run, name, repeated.get(name), pipes):
            return


def _check(run: Run, name: str, repeated: str | None, pipes: PipesContext) -> bool:
    """Tell what the checks of an asset find, and say whether the run may go on."""
    spec, again = _CHECKED[name], repeated is not None
    results = closed_runs.results(run, spec, repeated) if repeated else judge(run, spec)
    told = [asdict(result) for result in results]
    pipes.report_custom_message({"checks": told, "is_repeated": again})
    return again or all(result.allows for result in results)


def _table(run: Run, spec: TableSpec) -> Told:
    parents = {name: run.load(tables.BY_NAME[name]) for name in spec.parents}
    return _keep_table(run, closed_runs.make_or_stored(run, spec, parents))


def _report(run: Run, pipes: PipesContext, asked: Asked, repeated: Told) -> Told:
    may_begin = not (asked.is_backfill or repeated)
    with phase(NOTHING_BY_THIS_SWEEP):
        made = closed_runs.sweep_or_stored(run, partial(pipes.log.info, "%s"), may_begin=may_begin)
    if isinstance(made, closed_runs.NotSwept):
        return {"repeated": made.why}
    with phase(SWEEP_STANDS):
        return _keep_table(run, made)


def _keep_table(run: Run, made: Draft | StoredTable) -> Told:
    """Store a table, and tell of it; of one that was there already, tell that too."""
    stored, page = collect.keep(run, made)
    return {**_stored(run, stored.manifest, page), "repeated": closed_runs.words_of(made)}


def _stored(run: Run, manifest: Manifest, page: Mapping[str, str]) -> Told:
    """Tell of a stored table what its manifest says, without the rows that it may hold."""
    facts = {name: value for name, value in manifest.facts.items() if name != ENCLOSED}
    parts = tuple(replace(part, content="", without=None) for part in manifest.parts)
    lean = replace(manifest, facts={}, parts=parts, beside=())
    return {
        "manifest": lean.to_json().decode(),
        # Apart, since a document has its names in the order of the alphabet, and people do not.
        "facts": _json(facts),
        "sha256": manifest.sha256,
        "where": f"{run.store.root}{tables.folder(tables.BY_NAME[manifest.table], run.key)}",
        "page": page_to_open(run, page_after(run, manifest.table, page)),
        "server_calls": run.server.requests.total(),
    }


def _policy(run: Run) -> Told:
    facts, repeated = closed_runs.policy_facts(run)
    found = check_policy(run, facts)
    results = [asdict(result) for result in found]
    return {"facts": _json(facts), "results": results, "repeated": repeated}


def _verdict(run: Run, *, again: bool) -> Told:
    concluded, repeated = closed_runs.conclude_or_stored(run, again=again)
    return {
        "facts": _json(concluded.facts),
        "page": page_to_open(run, concluded.page),
        "report": None if concluded.report is None else concluded.report.to_json().decode(),
        "repeated": repeated,
    }


def _house(run: Run, asked: Asked, repeated: Told) -> Told:
    if asked.is_backfill or repeated:
        return {
            "repeated": closed_runs.AT_REST,
            "facts": {"pruned_runs": []},
            "words": closed_runs.AT_REST,
        }
    with phase(NOTHING_BY_HOUSE_KEEPING):
        house = house_keeping.after_run(run)
    return {"facts": _json(house.facts), "words": house.words}


def _json(facts: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(facts, default=list))  # noqa: TID251 - what this line wrote


if __name__ == "__main__":
    sys.exit(main())
