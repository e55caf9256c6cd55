"""The documents that lakegc stores: JSON with its own digest, read back unchanged or not at all.

Each kind names the format that is written (`FORMAT`), and the formats of earlier releases, which
are read for ever (`ALSO_READ`). A field that a later format adds has a default that says what its
absence meant. So an update neither blocks a namespace by the lease of the last run, nor ends a
hold. A format from the future is refused by name.

A kind is a frozen dataclass, and pydantic compares what is read with its fields. Executors carry
documents and read none, and their Python need not have pydantic: it is imported when the first
document is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from spark_core.errors import OF_A_RUN, CorruptTableError, LakegcError, VerdictError
from spark_core.json_and_toml import read_json

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationError
    from pydantic_core import CoreSchema

Values = TypeVar("Values")

_DIGEST = "sha256"
# The most faults that an error names.
_NAMED_FAULTS = 3


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Parsed:
    """Marks a field that is parsed from its JSON value.

    Attributes:
        of: The only JSON type allowed; pydantic alone takes 1 and "yes" for True.
        wanted: What a fault says was wanted.
        parse: Gets the JSON value; raises ValueError that says what it is, and what was wanted.
    """

    of: type
    wanted: str
    parse: Callable[[Any], Any] = _as_it_is

    def read(self, value: Any) -> Any:
        """Parse a JSON value.

        Raises:
            ValueError: If it has another type.
        """
        if type(value) is not self.of:
            raise ValueError(f"{value!r}, wanted {self.wanted}")
        return self.parse(value)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Tell pydantic to parse first."""
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.read, handler(source))


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r}, wanted {_A_TIME}")
    return instant


_A_TIME = "a time with its zone"
Instant = Annotated[datetime, Parsed(str, _A_TIME, _instant)]
Flag = Annotated[bool, Parsed(bool, "true or false")]
Count = Annotated[int, Parsed(int, "a whole number")]


@dataclass(frozen=True)
class Document:
    """A value that is stored as one JSON object; a subclass has a field for each of its keys.

    Class attributes:
        FORMAT: The format that is written.
        ALSO_READ: Formats of earlier releases.
        CALLED: The name for people, with its article.
        NEXT_STEP: What to do about a damaged one.
        LEFT_OUT_IF_EMPTY: Fields that are not stored if they are empty; a dataclass in a document
            may have it, too.
    """

    FORMAT: ClassVar[int] = 1
    ALSO_READ: ClassVar[tuple[int, ...]] = ()
    CALLED: ClassVar[str]
    NEXT_STEP: ClassVar[str] = OF_A_RUN
    LEFT_OUT_IF_EMPTY: ClassVar[tuple[str, ...]] = ()

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}
    _digest_as_stored: ClassVar[str | None] = None

    @property
    def digest(self) -> str:
        """Hex digest by which others name it: as stored, if it was read."""
        return self._digest_as_stored or digest(self.document())

    def document(self) -> dict[str, Any]:
        """Return its stored values, without the digest."""
        found = {
            "format": self.FORMAT,
            **_stored({field.name: getattr(self, field.name) for field in fields(self)}, self),
        }
        # Written and read back once, so that the digest is of the values that a reader finds.
        document: dict[str, Any] = read_json(json.dumps(found, default=_plain))
        return document

    def to_json(self) -> bytes:
        """Write it with its digest, which reveals any damage; equal documents give equal bytes."""
        return seal(self.document())

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Self:
        """Read it back.

        Args:
            data: The bytes as stored.
            name: Key, for the message.

        Raises:
            CorruptTableError: If it is no such document, or a byte of it has changed since it was
                written.
            LakegcError: If it was written in another format, as `of_another_format` says.
        """
        document, stored_digest = _checked(data, name=name, kind=cls)
        try:
            # The ignored error is about a hash, which a class has.
            read: Self = _adapter(cls).validate_python(document)  # type: ignore[arg-type]
        except ValueError as problem:
            raise _no_such(cls, name, problem) from problem
        object.__setattr__(read, "_digest_as_stored", stored_digest)
        return read

    @classmethod
    def of_another_format(cls, name: str, written: object) -> LakegcError:
        """Make the refusal of a document that a later lakegc wrote."""
        problem = (
            f"{cls.CALLED} of another lakegc, in format {written!r}; use the one that wrote it"
        )
        return CorruptTableError(name, None, problem, cls.NEXT_STEP)


class OfAMark(Document):
    """A document that each mark makes anew: in another format it is only useless to this lakegc."""

    @classmethod
    def of_another_format(cls, name: str, written: object) -> LakegcError:
        """Make the refusal, with the way on."""
        return VerdictError(
            f"{name} was written in format {written!r} by another version of lakegc, this one "
            f"writes format {cls.FORMAT}",
            "Mark again under a new run key (`lakegc mark`).",
        )


def read_values(kind: type[Values], values: Mapping[str, Any], *, name: str) -> Values:
    """Read a part of a document, which an earlier or a later lakegc may have written.

    Args:
        kind: A dataclass with a field for each known key; keys that it lacks are passed over.
        values: JSON values.
        name: What they are of, for the message.

    Raises:
        CorruptTableError: If a value is missing that has no default, or one has another type.
    """
    try:
        # Only JSON text can be read strictly: a number for text, or 1 for true, is refused.
        # The ignored error is about a hash, which a class has.
        read: Values = _adapter(kind).validate_json(  # type: ignore[arg-type]
            json.dumps(values, default=_plain), strict=True
        )
    except ValueError as problem:
        words = f"its figures cannot be read ({_faults(problem)})"
        raise CorruptTableError(name, None, words, OF_A_RUN) from problem
    return read


def seal(document: Mapping[str, Any]) -> bytes:
    """Write JSON values, without a key `sha256`, with their digest.

    The digest is no signature: who can write to the store can also seal a document anew. It reveals
    accidents and edits. The content of a document is compared with other things besides.
    """
    return _bytes({**document, _DIGEST: digest(document)})


def digest(document: Mapping[str, Any]) -> str:
    """Return the hex digest of a document without its seal."""
    return hashlib.sha256(_bytes(document)).hexdigest()


def _checked(data: bytes, *, name: str, kind: type[Document]) -> tuple[dict[str, Any], str | None]:
    """Return a document without format and digest, and its digest, if its bytes are unchanged."""
    try:
        document = read_json(data)
        stored_digest = document.pop(_DIGEST, None)
        written = document["format"]
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise _no_such(kind, name, problem) from problem
    is_known = written in (kind.FORMAT, *kind.ALSO_READ)
    if stored_digest is None and not is_known:
        raise kind.of_another_format(name, written)
    if stored_digest != digest(document) or data != _bytes({**document, _DIGEST: stored_digest}):
        raise CorruptTableError(
            name,
            None,
            f"its bytes are not those that were written (digest {digest(document)[:12]}, it says "
            f"{str(stored_digest)[:12]}): it "
            "was edited or damaged",
            kind.NEXT_STEP,
        )
    if not is_known:
        raise kind.of_another_format(name, written)
    del document["format"]
    return document, stored_digest


def _no_such(kind: type[Document], name: str, problem: Exception) -> CorruptTableError:
    faults = _faults(problem) if hasattr(problem, "errors") else repr(problem)
    return CorruptTableError(name, None, f"not {kind.CALLED} ({faults})", kind.NEXT_STEP)


def _faults(problem: Any) -> str:
    """Tell what pydantic found, on one line."""
    found: ValidationError = problem
    faults = [
        f"`{'.'.join(str(step) for step in fault['loc'])}`: "
        f"{fault.get('ctx', {}).get('error', fault['msg'])}"
        for fault in found.errors(include_url=False, include_input=False)
    ]
    return "; ".join(faults[:_NAMED_FAULTS])


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _stored(values: Mapping[str, Any], of: object) -> dict[str, Any]:
    """Leave out what a dataclass does not store because it is empty."""
    left_out = getattr(of, "LEFT_OUT_IF_EMPTY", ())
    return {name: one for name, one in values.items() if one or name not in left_out}


def _plain(value: Any) -> Any:
    """Make JSON of a value that has no JSON form of its own."""
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value):
        return _stored(vars(value), value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} cannot be stored")


def _bytes(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True).encode()
