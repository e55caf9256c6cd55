"""Writes docs/settings.md from the settings: `python -m spark_core.settings.reference_page`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from spark_core.run.options_and_defaults import OPTIONS, RunOptions
from spark_core.settings import Settings
from spark_core.settings.sections import RepositorySettings, Section

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

_HEAD = """\
# Settings

<!-- Written by `python -m spark_core.settings.reference_page`; change what it is made of. -->

The file is the one that `--config` names, else `LAKEGC_CONFIG`, else `./lakegc.toml`. It has to say
one thing: the `endpoint` of `[server]`. Relative paths in it start at the file.

Every value can be given in the environment, too, and wins there: `LAKEGC__SERVER__ENDPOINT`,
`LAKEGC__DEFAULTS__MIN_AGE_HOURS`, `LAKEGC__REPOSITORIES__MY_REPO__MODE` (`_` for `-` in the name).
A list or a table is given as JSON. The file may hold no secret; keys have variables and files of
their own ([credentials](security.md#credentials)).

lakegc logs in to the server with the key pair of the environment, if both its variables are set;
else by the one way that `[server]` names: `credentials_file`, `token_file`, `token_command` or
`aws_iam`. Two of these at once are refused. [Logging in](logging-in.md) shows each, and
[networks](networks.md) what a proxy or an authority of your own needs.

What belongs to a repository goes to `[defaults]`, or to `[repositories.NAME]`, which says only what
differs. Each repository that is to be collected has that table; it may be empty. The name may be a
pattern ([many repositories](operating.md#many-repositories)). For a server with several storages,
`[storages.ID]` says what differs from `[storage]` for one of them.

The last column of `[defaults]` names the [checks](checks.md), or other refusals, that a setting
lifts.
"""

# The pages to read if one sentence is not enough.
_MORE = {
    "compacted": "residual-limits.md#what-the-server-compacted",
    "executor_credentials": "clusters.md#how-the-executors-get-what-they-need",
    "hidden_entries": "residual-limits.md#entries-that-hide-and-time",
    "inventory": "tasks/inventory.md",
    "quarantine": "object-stores.md#quarantine",
    "strangers": "how-it-works.md#why-an-object-that-looks-dead-is-kept",
    "write_reference_mark": "reference-job.md",
}
# The tables in the form of `[storage]` and `[defaults]`.
_BY_NAME = ("storages", "repositories")

_UNITS = {"seconds", "minutes", "hours", "days"}
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most"}


def page() -> str:
    """Return the page: a table for each table of the file."""
    tables = {
        name: info.annotation
        for name, info in Settings.model_fields.items()
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section)
    }
    lines = [_HEAD, *_table("Above all tables", Settings, leave_out=(*tables, *_BY_NAME))]
    for name, model in tables.items():
        lines += _table(f"`[{name}]`", model)
    return "\n".join(lines)


def _table(title: str, model: type[Section], leave_out: Collection[str] = ()) -> Iterator[str]:
    says, lifts = _attributes(model), {}
    if model is RepositorySettings:
        sentences = _attributes(RunOptions)
        says = {option.setting: sentences[option.name] for option in OPTIONS}
        lifts = {option.setting: option.lifts for option in OPTIONS}
    yield f"## {title}\n"
    yield f"| setting | value | default | what it does |{' what it lifts |' if lifts else ''}"
    yield f"| --- | --- | --- | --- |{' --- |' if lifts else ''}"
    for name, info in model.model_fields.items():
        if name not in leave_out:
            more = f" [More]({_MORE[name]})." if name in _MORE else ""
            row = f"| `{name}` | {_value(name, info)} | {_default(info)} | {says[name]}{more} |"
            lifted = ", ".join(
                f"`{each}`" if each.isidentifier() else each for each in lifts.get(name, ())
            )
            yield f"{row} {lifted} |" if lifts else row
    yield ""


def _attributes(documented: type) -> dict[str, str]:
    """Return what the docstring of a class says of each attribute."""
    texts = re.findall(
        r"^    (\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(documented) or "", re.MULTILINE
    )
    return {name: " ".join(words.split()) for name, words in texts}


def _value(name: str, info: FieldInfo) -> str:
    """Say which values a setting takes: their kind or unit, and bounds."""
    annotation = info.annotation
    kind: Any = get_origin(annotation)
    if kind is Literal:
        return " or ".join(f"`{word}`" for word in get_args(annotation))
    if kind is list and get_origin(item := get_args(annotation)[0]) is Literal:
        return "list of " + ", ".join(f"`{word}`" for word in get_args(item))
    if kind not in {dict, list}:
        # A setting that may be left out has the type "this or None".
        kind = next(iter(get_args(annotation)), annotation)
    if get_origin(kind) is dict:
        return "table of numbers"
    unit = name.rpartition("_")[2]
    kinds = {bool: "`true` or `false`", str: "text", int: "whole number", float: "number"}
    kinds |= {dict: "table of texts", list: "list of texts"}
    bounds = [
        f"{words} {getattr(each, key):g}"
        for each in info.metadata
        for key, words in _BOUNDS.items()
        if hasattr(each, key)
    ]
    return ", ".join([unit if unit in _UNITS else kinds[kind], *bounds])


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    default = info.get_default(call_default_factory=True)
    if default is None or default in ([], {}):
        return "none"
    if isinstance(default, list):
        return ", ".join(f"`{word}`" for word in default)
    if isinstance(default, bool):
        return str(default).lower()
    return f"`{default}`" if isinstance(default, str) else f"{default:g}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
