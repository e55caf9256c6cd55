"""The assets of a run that works elsewhere: one step, which shows what the entry there tells.

Metadata, checks and refusals are those of a run that works here. The machine of Dagster needs
neither Spark nor any key of the server or the store for them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import dagster as dg

from lakegc_dagster.asset_checks import as_dagster, build_checks
from lakegc_dagster.assets.of_repositories import report_run
from lakegc_dagster.headlines import (
    of_house_keeping,
    of_not_swept,
    of_policy,
    of_stored,
    of_verdict,
)
from lakegc_dagster.in_dagster.done_before import made_assets, repeated_metadata
from lakegc_dagster.in_dagster.failures import failure_of, raising_failures, refusal_of
from lakegc_dagster.in_dagster.private_doors import is_of_a_backfill
from lakegc_dagster.metadata import (
    Metadata,
    above,
    counters_metadata,
    manifest_metadata,
    work_metadata,
)
from lakegc_dagster.names import Names, asset_name
from lakegc_dagster.partitions import parse_partition_key
from lakegc_dagster.pipes.launchers import Launcher
from lakegc_dagster.runs.run_config import HOUSE_KEEPING, LaunchedConfig
from spark_core import errors
from spark_core.checks import CheckResult
from spark_core.errors import IncompleteReadError, LakegcError
from spark_core.phases import add_state
from spark_core.prices import Price
from spark_core.records.manifest import Manifest
from spark_core.settings import Settings
from spark_core.settings.file import PREFIX, leaves
from spark_core.settings.secrets import without_secrets
from spark_core.tries import Retries

# Under this name the entry finds what is asked.
ASKED = "lakegc"
STEP = "launched_run"

_LOST = (
    "The run elsewhere could not tell how it ended. Whatever it stored or deleted stands: "
    "`lakegc runs` shows it, and a sweep that is started again goes on from its journal."
)

Result: TypeAlias = dg.MaterializeResult[Any] | dg.AssetCheckResult
Told: TypeAlias = Mapping[str, Any]


def build_launched(
    settings: Settings,
    names: Names,
    assets: Sequence[dg.AssetsDefinition],
    launcher: Launcher,
) -> dg.AssetsDefinition:
    """Make the assets and checks of a run as one step that starts the run elsewhere.

    Args:
        settings: The settings, which the entry is given without secrets.
        names: Those of the collector.
        assets: The assets as they are made here.
        launcher: Starts the entry, and waits for it.
    """
    retries: defaultdict[str, Retries] = defaultdict(Retries)

    @dg.multi_asset(
        name=names.named(STEP),
        specs=[spec for asset in assets for spec in asset.specs],
        check_specs=[spec for check in build_checks(names) for spec in check.check_specs],
        can_subset=True,
        pool=names.pool,
    )
    def launched_run(context: dg.AssetExecutionContext, config: LaunchedConfig) -> Iterator[Result]:
        with raising_failures(lambda _error: None, retries=retries[context.run_id]):
            asked = asked_of(context, settings, config)
            try:
                done = launcher(context, {ASKED: asked})
            except Exception as lost:
                lost.add_note(_LOST)
                raise
            messages = done.get_custom_messages()
            yield from results_of(context, settings, names, messages)
            require_all_told(asked, messages)

    return launched_run


def asked_of(context: dg.AssetExecutionContext, settings: Settings, config: LaunchedConfig) -> Told:
    """Return what the entry is asked for, as `entry.Asked` has it.

    Raises:
        SettingsError: If the partition is none, or the settings do not know its repository.
    """
    repository_id, key = parse_partition_key(context.partition_key)
    settings.repository(repository_id)
    return {
        **told_settings(settings),
        "file": None if settings.file is None else str(settings.file),
        "repository": repository_id,
        "run": str(key),
        "assets": sorted(map(asset_name, context.selected_asset_keys)),
        "checks": sorted({asset_name(key.asset_key) for key in context.selected_asset_check_keys}),
        "options": config.model_dump(),
        "is_backfill": is_of_a_backfill(context.run.tags),
        "made": made_assets(context),
    }


def told_settings(settings: Settings) -> dict[str, Any]:
    """Return what is told of the settings: what they say without secrets, and who has to say those.

    What is launched has a Spark of its own, and so is not told of a Spark Connect server.
    """
    # It needs neither, and neither is made to be told.
    said = settings.model_dump(mode="json", exclude_unset=True, exclude={"launch", "notify"})
    if settings.spark.remote:
        del said["spark"]["master"]
    told = without_secrets(said)
    secret = set(leaves(said)) - set(leaves(told))
    variables = {f"{PREFIX}{'__'.join(map(str, place[:2])).upper()}" for place in secret}
    return {"settings": told, "environment": sorted(variables)}


def results_of(
    context: dg.AssetExecutionContext, settings: Settings, names: Names, messages: Sequence[Told]
) -> Iterator[Result]:
    """Yield what the entry told, in its order, and end as it ended.

    Args:
        context: The step.
        settings: The settings.
        names: Those of the collector.
        messages: What the entry told.

    Raises:
        LakegcError: The error that ended the run.
        Failure: The refusal by checks that failed.
    """
    repository_id, key = parse_partition_key(context.partition_key)
    options = settings.run_options(repository_id)
    for told in messages:
        if "error" in told:
            raise error_of(told)
        if "checks" in told:
            yield from _checked(context, names, told)
            if told["is_repeated"]:
                continue
            refused = refusal_of(repository_id, key, [CheckResult(**one) for one in told["checks"]])
            if refused is not None:
                raise failure_of(refused)
            continue
        again = repeated_metadata(told.get("repeated"))
        metadata = {**again, **_metadata(context, told, options.price)}
        yield dg.MaterializeResult(asset_key=names.key(told["asset"]), metadata=metadata)
        if told["asset"] == HOUSE_KEEPING:
            report_run(context, names, may_sweep=options.may_sweep)


def require_all_told(asked: Told, messages: Sequence[Told]) -> None:
    """Refuse to show a run as ended well that did not tell of all that was asked.

    Messages get lost, and the last one may have been a refusal. Dagster itself misses nothing where
    a step may make some of its assets.

    Args:
        asked: The result of `asked_of`.
        messages: What the entry told; nothing in it ended the run.

    Raises:
        IncompleteReadError: If something is missing.
    """
    made = {told["asset"] for told in messages if "asset" in told}
    missing = sorted(set(asked["assets"]) - made)
    checked = sum("checks" in told for told in messages)
    if left := len(asked["checks"]) - checked:
        missing.append(f"{left} of the checks of {len(asked['checks'])} assets")
    if missing:
        lost = IncompleteReadError(
            f"run {asked['run']} of {asked['repository']} ended elsewhere, and told nothing of "
            f"{', '.join(missing)}",
            "Look at the log of the process or cluster that it ran on, then start it again.",
        )
        raise add_state(lost, _LOST)


def error_of(told: Told) -> LakegcError:
    """Return the error that the entry told of, as it was raised there."""
    kind: type[LakegcError] = getattr(errors, told["error"], LakegcError)
    made = kind.from_message(told["found"])
    made.next_step, made.state = told["next_step"], told["state"]
    return made


def _checked(
    context: dg.AssetExecutionContext, names: Names, told: Told
) -> Iterator[dg.AssetCheckResult]:
    for one in told["checks"]:
        shown = as_dagster(CheckResult(**one), names, blocks=not told["is_repeated"])
        if (shown.asset_key, shown.check_name) in {
            (key.asset_key, key.name) for key in context.selected_asset_check_keys
        }:
            yield shown


def _metadata(context: dg.AssetExecutionContext, told: Told, price: Price | None) -> Metadata:
    worked = work_metadata(told["worked"])
    if "manifest" in told:
        return _of_table(told, price, worked)
    if "results" in told:
        return {**_of_policy(context, told), **worked}
    if "facts" not in told:
        return {**of_not_swept(told["repeated"]), **worked}
    counters = counters_metadata(told["facts"])
    if told["asset"] == HOUSE_KEEPING:
        context.log.info(told["words"])
        return {**above(of_house_keeping(told["words"]), counters), **worked}
    from spark_core.report import Report

    report = told["report"]
    found = None if report is None else Report.from_json(report.encode(), name="the report")
    return {**above(of_verdict(found, price, told["page"]), counters), **worked}


def _of_table(told: Told, price: Price | None, worked: Metadata) -> Metadata:
    lean = Manifest.from_json(told["manifest"].encode(), name=told["asset"])
    manifest = replace(lean, facts=told["facts"])
    counters = {
        **manifest_metadata(manifest, told["where"]),
        "manifest_sha256": dg.MetadataValue.text(told["sha256"]),
        "server_calls_so_far": dg.MetadataValue.int(told["server_calls"]),
    }
    return above(of_stored(manifest, price, told["page"]), {**worked, **counters})


def _of_policy(context: dg.AssetExecutionContext, told: Told) -> Metadata:
    found = [CheckResult(**one) for one in told["results"]]
    for result in found:
        if not result.passed:
            context.log.warning(result.summary)
    return of_policy(found, told["facts"])
