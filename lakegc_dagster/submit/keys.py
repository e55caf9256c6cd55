"""The configuration keys of lakeFS's own collection job, and what becomes of each of them here.

Only plain values come in and go out: nothing is started, no request is sent.

References:
    lakefs-facts 6.1, 6.2, 6.5; lakeFS Spark client 0.22.0 `LakeFSContext.scala`,
    `S3ClientBuilder.scala`, `StorageClients.scala`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from lakegc_dagster.submit.stores import StoreKeys, read_store_keys
from spark_core.errors import SettingsError
from spark_core.model import RunKey
from spark_core.settings import Settings
from spark_core.settings import file as settings_file

OWN = "spark.lakegc."
# This is no setting: it is given once, for one dead run.
TAKE_OVER = f"{OWN}take_over"

# A page of prepare_uncommitted works for a minute before it ends itself.
_SHORTEST_READ_SECONDS = 120

_MIN_AGE = "lakefs.debug.gc.uncommitted_min_age_seconds"
_DO_MARK, _DO_SWEEP, _MARK_ID = "lakefs.gc.do_mark", "lakefs.gc.do_sweep", "lakefs.gc.mark_id"
_NO_DELETE = "lakefs.debug.gc.no_delete"
_URL = "lakefs.api.url"
_KEY_ID, _SECRET = "lakefs.api.access_key", "lakefs.api.secret_key"

# The keys that only change their name.
_RENAMED = {
    _URL: "SERVER__ENDPOINT",
    "lakefs.api.read.timeout_seconds": "SERVER__READ_TIMEOUT_SECONDS",
    "lakefs.gc.prepare_commits.timeout_seconds": "SERVER__PREPARE_DEADLINE_SECONDS",
}
_READ = (*_RENAMED, _MIN_AGE, _DO_MARK, _DO_SWEEP, _MARK_ID, _NO_DELETE, _KEY_ID, _SECRET)
_IGNORED = {
    "lakefs.api.connection.timeout_seconds": "a connection may take ten seconds; a server that is "
    "away is waited for",
    "lakefs.gc.range.num_partitions": "ranges are dealt out by the cores of the session",
    "lakefs.job.range_read_parallelism": "ranges are dealt out by the cores of the session",
    "lakefs.gc.address.num_partitions": "addresses are compared in as many parts as there are rows "
    "for",
    "lakefs.gc.s3.min_backoff_secs": "the store's own client slows down and asks again by itself",
    "lakefs.gc.s3.max_backoff_secs": "the store's own client slows down and asks again by itself",
    "lakefs.gc.address.write_as_text": "the report says what it said; write_reference_mark writes "
    "text beside the Parquet",
    "lakefs.gc.address.approx_num_ranges_to_spread_per_partition": "ranges are dealt out by "
    "the cores of the session",
    "lakefs.debug.gc.addresses_sample_fraction": "today's reference job does not read it either; "
    "every address counts",
    "lakefs.job.repo_name": "the reference job sets it by itself",
    "lakefs.job.storage_namespace": "the reference job sets it by itself",
    "lakefs.job.commit_ids": "the reference job sets it by itself",
    "lakefs.job.source_name": "the reference job sets it by itself",
}
# A typing error here would change what is deleted.
_REFUSED_WHEN_UNKNOWN = ("lakefs.gc.", "lakefs.debug.gc.", "lakefs.api.")


@dataclass(frozen=True)
class Job:
    """What a command line of the reference job asks for, in lakegc's own words.

    Attributes:
        repository_id: The repository.
        mark: Whether to mark.
        sweep: Whether to delete.
        mark_id: Mark to sweep if this job makes none: a run key, or an id in the reference job's
            form, which a new mark verifies first; else empty.
        settings: As `lakegc.toml` would say it.
        stores: What it says about object stores and their credentials.
        ignored: Key -> why it has no effect.
        notes: Sentences about keys that became something else than their words say.
        take_over: Key of the dead run whose lease may be taken over.
    """

    repository_id: str
    mark: bool
    sweep: bool
    mark_id: str
    settings: Settings
    stores: StoreKeys
    ignored: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    take_over: str | None = None


def read_job(arguments: Sequence[str], keys: Mapping[str, str]) -> Job:
    """Read a command line of the reference job.

    Args:
        arguments: `REPOSITORY [REGION]`.
        keys: Hadoop configuration by key (without `spark.hadoop.`), and Spark's own under
            `spark.lakegc.` and `spark.master`.

    Raises:
        SettingsError: If it asks for nothing, for what cannot be, or with a key that does not
            exist.
    """
    if len(arguments) not in {1, 2} or not arguments[0]:
        raise SettingsError(
            f"{len(arguments)} arguments, wanted REPOSITORY [REGION]",
            "Options of spark-submit stand before the name of the Python file, these behind it.",
        )
    ignored = _unused(keys)
    notes: list[str] = []
    do_mark, do_sweep, mark_id = _phases(keys, notes)
    stores = read_store_keys(keys, arguments[1] if len(arguments) > 1 else None)
    ignored |= stores.ignored
    variables = {f"{settings_file.PREFIX}{name}": value for name, value in stores.settings.items()}
    # Last, because lakegc's own words are meant only for lakegc and win.
    variables |= _variables(keys, notes)
    settings = _settings(arguments[0], variables, sweep=do_sweep, keys=keys)
    take_over = str(RunKey.parse(keys[TAKE_OVER].strip())) if TAKE_OVER in keys else None
    return Job(
        arguments[0],
        do_mark,
        do_sweep,
        mark_id,
        settings,
        stores,
        ignored,
        [*notes, *stores.notes],
        take_over,
    )


def _unused(keys: Mapping[str, str]) -> dict[str, str]:
    """Name the keys that have no effect, and refuse unknown ones.

    Raises:
        SettingsError: If a key of the job does not exist.
    """
    unused = {}
    for key in sorted(keys):
        if key in _READ or not key.startswith("lakefs."):
            continue
        if key in _IGNORED:
            unused[key] = _IGNORED[key]
        elif key.startswith(_REFUSED_WHEN_UNKNOWN):
            close = difflib.get_close_matches(key, [*_READ, *_IGNORED], n=1)
            advice = (
                f"did you mean {close[0]}?"
                if close
                else f"known are: {', '.join(sorted([*_READ, *_IGNORED]))}."
            )
            raise SettingsError(f"spark.hadoop.{key} is no key of the reference job; {advice}")
        else:
            unused[key] = "not a key of the collection job"
    return unused


def _phases(keys: Mapping[str, str], notes: list[str]) -> tuple[bool, bool, str]:
    """Return whether to mark, whether to sweep, and the mark to sweep.

    It refuses what the reference job refuses.
    """
    do_mark, do_sweep = (
        _switch(keys, _DO_MARK, default=True),
        _switch(keys, _DO_SWEEP, default=True),
    )
    mark_id = keys.get(_MARK_ID, "").strip()
    if _switch(keys, _NO_DELETE, default=False):
        notes.append(f"{_NO_DELETE} = true: nothing is deleted, as if {_DO_SWEEP} were false")
        do_sweep = False
    if not do_mark and not do_sweep:
        raise SettingsError(
            f"{_DO_MARK} is false, and so is {_DO_SWEEP}: there is nothing to do",
            "Switch one of them on.",
        )
    if not do_mark and not mark_id:
        raise SettingsError(
            f"{_DO_MARK} is false and {_MARK_ID} is empty: no mark to sweep was named",
            "Name it.",
        )
    if do_mark and mark_id:
        raise SettingsError(
            f"{_MARK_ID} is {mark_id!r} although {_DO_MARK} is true: a new mark gets an id of its "
            "own",
            f"Leave {_MARK_ID} out to mark, or set {_DO_MARK} to false to sweep that one.",
        )
    return do_mark, do_sweep, mark_id


def _switch(keys: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = keys.get(key, "").strip().lower()
    if text not in {"", "true", "false"}:
        raise SettingsError(
            f"{key} is {text!r}, wanted true or false",
            f"(The reference job would take it for its default, {str(default).lower()}.)",
        )
    return default if not text else text == "true"


def _variables(keys: Mapping[str, str], notes: list[str]) -> dict[str, tuple[str, str]]:
    """Return the settings as environment variables would have them, each with its original key."""
    found: dict[str, tuple[str, str]] = {}
    for key, name in _RENAMED.items():
        text = keys.get(key, "").strip()
        if not text:
            continue
        if name == "SERVER__READ_TIMEOUT_SECONDS" and _number(key, text) < _SHORTEST_READ_SECONDS:
            notes.append(
                f"{key} = {text}: raised to {_SHORTEST_READ_SECONDS}, since the server works up "
                "to a minute on one answer"
            )
            text = str(_SHORTEST_READ_SECONDS)
        found[f"{settings_file.PREFIX}{name}"] = text, key
    seconds = keys.get(_MIN_AGE, "").strip()
    if seconds and _number(_MIN_AGE, seconds) > 0:
        found[f"{settings_file.PREFIX}DEFAULTS__MIN_AGE_HOURS"] = (
            repr(_number(_MIN_AGE, seconds) / 3600),
            _MIN_AGE,
        )
        found[f"{settings_file.PREFIX}DEFAULTS__ALLOW_UNSAFE_MIN_AGE"] = "true", _MIN_AGE
        notes.append(
            f"{_MIN_AGE} = {seconds}: accepted even where that is less than the server lets an "
            "upload wait"
        )
    if keys.get("spark.master"):
        found[f"{settings_file.PREFIX}SPARK__MASTER"] = keys["spark.master"], "spark.master"
    for key in sorted(keys):
        if key.startswith(OWN) and key != TAKE_OVER:
            name = settings_file.PREFIX + key.removeprefix(OWN).replace(".", "__").upper()
            found[name] = keys[key], key
    return found


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingsError(f"{key} is {text[:40]!r}, wanted a number of seconds.") from None


def _settings(
    repository_id: str,
    variables: Mapping[str, tuple[str, str]],
    *,
    sweep: bool,
    keys: Mapping[str, str],
) -> Settings:
    """Check the settings as a file's settings are checked; name Spark's keys if one is wrong.

    Raises:
        SettingsError: One line for each thing that is wrong.
    """
    missing = [
        f"spark.hadoop.{key}" for key in (_URL, _KEY_ID, _SECRET) if not keys.get(key, "").strip()
    ]
    if missing:
        raise SettingsError(
            f"{' and '.join(missing)}: not set",
            "The server's URL (like https://lakefs.example.com/api/v1) and both keys of a lakeFS "
            "user are needed.",
        )
    try:
        settings = _validated(
            repository_id, {name: value for name, (value, _) in variables.items()}, sweep=sweep
        )
    except SettingsError as wrong:
        text = str(wrong)
        for name, (_, key) in sorted(variables.items(), key=lambda item: -len(item[0])):
            text = text.replace(name, key if key.startswith("spark.") else f"spark.hadoop.{key}")
        raise SettingsError(text) from None
    # Settings name variables of this process; the keys of the server come from the job alone.
    env = {name: value for name, value in os.environ.items() if not name.startswith("LAKEGC_")}
    env |= {"LAKEGC_ACCESS_KEY_ID": keys[_KEY_ID], "LAKEGC_SECRET_ACCESS_KEY": keys[_SECRET]}
    settings._env = env  # noqa: SLF001 - pydantic's constructor takes no private attributes
    return settings


def _validated(repository_id: str, variables: Mapping[str, str], *, sweep: bool) -> Settings:
    source = settings_file.read_file(None, variables, Settings)
    own = _own_words(repository_id, source.document, sweep=sweep)
    document = {
        **source.document,
        # The reference job takes any minimum age. A short one on this command line is meant for
        # this repository.
        "throwaway_repositories": [repository_id],
        "repositories": {repository_id: {**own, "mode": "sweep" if sweep else "mark"}},
    }
    try:
        return Settings.model_validate(document)
    except ValidationError as invalid:
        raise SettingsError(
            "\n".join(settings_file.describe(error, source, Settings) for error in invalid.errors())
        ) from None


def _own_words(
    repository_id: str, document: Mapping[str, Any], *, sweep: bool
) -> Mapping[str, Any]:
    """Return what lakegc's own keys say of the repository; none of those words may be lost.

    Raises:
        SettingsError: If they speak of another repository, or want a mark where the job is to
            sweep.
    """
    tables, defaults = document.get("repositories", {}), document.get("defaults", {})
    own = tables.get(repository_id, {}) if isinstance(tables, dict) else None
    if not isinstance(own, dict) or tables.keys() - {repository_id}:
        raise SettingsError(
            f"{OWN}repositories does not hold settings of {repository_id} alone, the repository of "
            "this command line",
            f"Write {OWN}repositories.{repository_id}.SETTING, or {OWN}defaults.SETTING.",
        )
    default = defaults.get("mode") if isinstance(defaults, dict) else None
    if sweep and own.get("mode", default) == "mark":
        raise SettingsError(
            f'{OWN}...mode is "mark", and {_DO_SWEEP} is not false: the two contradict each other',
            f"Set spark.hadoop.{_DO_SWEEP} to false, or take the mode out.",
        )
    return own
