"""Read `lakegc.toml` under the environment's overrides, and say where a wrong word stands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from spark_core.errors import SettingsError
from spark_core.json_and_toml import NamedTwiceError, read_json, read_toml
from spark_core.settings.line_of_setting import Place, line_of
from spark_core.settings.secrets import is_secret
from spark_core.text_files import read_text

PREFIX = "LAKEGC__"


@dataclass(frozen=True)
class SettingsSource:
    """What was read, and from where.

    Attributes:
        path: The file; None when there is none.
        text: Its text.
        document: The file's values with the environment's put over them.
        variables: Place of a value -> the environment variable that it came from.
    """

    path: Path | None
    text: str
    document: dict[str, Any]
    variables: dict[Place, str] = field(default_factory=dict)

    def place(self, loc: Place) -> str:
        """Say where a value stands, for people."""
        for place, variable in self.variables.items():
            if place == loc[: len(place)] or loc == place[: len(loc)]:
                return variable
        if self.path is None:
            return "the environment"
        line = line_of(self.text, loc)
        return str(self.path) if line is None else f"{self.path}, line {line}"

    def place_of(self, loc: Place) -> str | None:
        """Say where a value stands that may be left out; None where nobody says it."""
        table: Any = self.document
        for part in loc:
            if not isinstance(table, Mapping) or part not in table:
                return None
            table = table[part]
        return self.place(loc)


@dataclass(frozen=True)
class Beside:
    """What somebody else says beside the file, in the file's own words.

    Attributes:
        by: Who says it, for messages.
        document: Tables as in the file.
    """

    by: str
    document: Mapping[str, Any]


def read_file(
    path: Path | None,
    env: Mapping[str, str],
    model: type[BaseModel],
    beside: Beside | None = None,
) -> SettingsSource:
    """Read the file and put the environment's values over it.

    `LAKEGC__SERVER__ENDPOINT` stands for `endpoint` of `[server]`, and so on
    down; the name of a repository is written with `_` for `-`. A list or a
    table is given as JSON.

    Args:
        path: The file, if any.
        env: Environment.
        model: The model of the whole document.
        beside: What somebody else says beside the file.

    Raises:
        SettingsError: If the file is not TOML, holds a secret, or a variable names no setting; or
            if the file and what is said beside it say the same thing.
    """
    text = ""
    document: dict[str, Any] = {}
    if path is not None:
        text = read_text(path, str(path))
        try:
            document = read_toml(text)
        except ValueError as problem:
            raise SettingsError(f"{path} is not TOML: {problem}", "Mend that line.") from None
    source = SettingsSource(path, text, document)
    if beside is not None:
        _add(source, beside)
    _refuse_secrets(source)
    for variable in sorted(name for name in env if name.startswith(PREFIX)):
        _override(source, variable, env[variable], model)
    return source


def describe(error: ErrorDetails, source: SettingsSource, model: type[BaseModel]) -> str:
    """Say in one line what is wrong with a value, where, and what was wanted.

    The value itself is shown only if it cannot be a secret: a number, a switch, or one of a few
    words.

    Args:
        error: What pydantic found.
        source: What was read.
        model: The model of the whole document.
    """
    loc = tuple(error["loc"])
    kind = error["type"]
    if kind == "missing" and loc[0] == "server":
        return (
            f"{source.place(loc)}: no server is named. Write under [server] the line "
            f'endpoint = "https://lakefs.example.com", or set {PREFIX}SERVER__ENDPOINT.'
        )
    if loc[-1] == "[key]":
        return (
            f"{source.place(loc[:-1])}: {loc[-2]!r} is not the name of a lakeFS repository "
            "(lower-case letters, digits and dashes, 3 to 63 of them), nor a pattern with * and ?."
        )
    where = f"{source.place(loc)}: {_title(loc)}"
    if kind == "extra_forbidden":
        names = list(_fields(model, loc[:-1]))
        close = difflib.get_close_matches(str(loc[-1]), names, n=1)
        advice = f"did you mean {close[0]}?" if close else f"known there: {', '.join(names)}."
        return f"{where} is not a setting; {advice}"
    value = error["input"]
    found = (
        f" is {value!r},"
        if isinstance(value, bool | int | float) or kind == "literal_error"
        else ":"
    )
    if isinstance(value, str) and kind.startswith(("float", "int", "bool")):
        found = f" is {value[:40]!r},"
    wanted = re.sub(r"^(Input should be |Value error, )", "", error["msg"])
    return f"{where}{found} wanted {wanted}."


def _title(loc: Place) -> str:
    *table, name = loc
    return f"[{'.'.join(map(str, table))}] {name}" if table else str(name)


def _fields(model: type[BaseModel], loc: Place) -> Iterator[str]:
    """Yield the names that a table may hold."""
    annotation: Any = model
    for part in loc:
        annotation = _child(annotation, str(part))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from annotation.model_fields


def _child(annotation: Any, part: str) -> Any:
    """Return the type of one member of a table; None if it has no such member."""
    if get_origin(annotation) is dict:
        return get_args(annotation)[1]
    if (
        isinstance(annotation, type)
        and issubclass(annotation, BaseModel)
        and part in annotation.model_fields
    ):
        info = annotation.model_fields[part]
        return info.annotation
    return None


def _override(source: SettingsSource, variable: str, text: str, model: type[BaseModel]) -> None:
    annotation: Any = model
    table = source.document
    place: list[str] = []
    parts = variable.removeprefix(PREFIX).lower().split("__")
    for depth, written in enumerate(parts):
        # Names of repositories have dashes, which a shell does not export.
        part = written.replace("_", "-") if get_origin(annotation) is dict else written
        if is_secret(part):
            raise SettingsError(
                f"{variable}: secrets are not settings",
                "Set LAKEGC_ACCESS_KEY_ID and LAKEGC_SECRET_ACCESS_KEY instead.",
            )
        annotation = _child(annotation, part)
        if annotation is None or not part:
            raise SettingsError(
                f"{variable} names no setting: there is no {'.'.join([*place, part])}",
                "Mend or unset it.",
            )
        place.append(part)
        if depth < len(parts) - 1:
            inner = table.setdefault(part, {})
            if not isinstance(inner, dict):
                # The file has a value where a table belongs; the model's own refusal says so.
                return
            table = inner
    if twice := source.variables.get(tuple(place)):
        raise SettingsError(f"{twice} and {variable} name one setting", "Unset one of them.")
    table[place[-1]] = _value(annotation, variable, text)
    source.variables[tuple(place)] = variable


def _value(annotation: Any, variable: str, text: str) -> Any:
    """Read a variable's text as the setting's type; the model refuses what cannot be read so."""
    if str in {annotation, *get_args(annotation)} and get_origin(annotation) not in {dict, list}:
        return text
    try:
        return read_json(text, each_once=True)
    except NamedTwiceError as twice:
        raise SettingsError(f"{variable}: {twice}", "Say it once.") from None
    except ValueError:
        return text


def _add(source: SettingsSource, beside: Beside) -> None:
    """Put into a document what is said beside it, which it must not say, too."""
    for *above, name in list(leaves(beside.document)):
        table: Any = source.document
        said: Any = beside.document
        for part in above:
            table, said = table.setdefault(part, {}), said[part]
        place = (*above, name)
        if not isinstance(table, dict) or name in table:
            raise SettingsError(
                f"{source.place(place)} and {beside.by} both say {_title(place)}",
                "Say it in one of them.",
            )
        table[name] = said[name]
        source.variables[place] = beside.by


def leaves(table: Mapping[str, Any], above: Place = ()) -> Iterator[Place]:
    """Yield where a document says something that is no table."""
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name)


def _refuse_secrets(source: SettingsSource) -> None:
    for loc in leaves(source.document):
        # A repository or a storage may be called whatever it is.
        if loc[:-1] not in (("repositories",), ("storages",)) and is_secret(str(loc[-1])):
            raise SettingsError(
                f"{source.place(loc)}: {_title(loc)} is a secret, and secrets do not belong in "
                "this file",
                "Take the line out (and change the secret if others could read it), then set "
                "LAKEGC_ACCESS_KEY_ID and LAKEGC_SECRET_ACCESS_KEY (AWS_... for the store), or "
                "name a credentials_file (for a token, a token_file or token_command).",
            )
