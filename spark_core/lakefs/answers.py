"""Read the JSON of the server's answers field by field, and refuse what is not as documented."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from spark_core.addresses.xids import XID
from spark_core.errors import IncompleteReadError
from spark_core.json_and_toml import read_json
from spark_core.lakefs.calls import Answer, Call

_XID = re.compile(XID)
_HASH = re.compile(r"[0-9a-f]{64}")


class Body:
    """A JSON object of an answer.

    Args:
        call: The call, for errors.
        value: The decoded JSON; anything but an object is refused.

    Raises:
        IncompleteReadError: If a field that is read is missing or of another type.
            An unreadable answer never counts as an empty one.
    """

    def __init__(self, call: Call, value: Any) -> None:
        self._call = call
        if not isinstance(value, dict):
            raise unreadable(call, f"{type(value).__name__} instead of an object")
        self._value = value

    @classmethod
    def of(cls, call: Call, answer: Answer) -> Body:
        """Decode the body of an answer."""
        try:
            return cls(call, read_json(answer.body))
        except ValueError:
            raise unreadable(
                call, "something that is no JSON; is endpoint a lakeFS server?"
            ) from None

    def has(self, key: str) -> bool:
        """Say whether the field is there and not null."""
        return self._value.get(key) is not None

    def text(self, key: str) -> str:
        """Read a string."""
        return str(self._read(key, str))

    def optional_text(self, key: str) -> str:
        """Read a string; absent and null give the empty string."""
        return self.text(key) if self.has(key) else ""

    def integer(self, key: str) -> int:
        """Read a whole number."""
        return int(self._read(key, int))

    def flag(self, key: str) -> bool:
        """Read a boolean."""
        return bool(self._read(key, bool))

    def optional_flag(self, key: str) -> bool:
        """Read a boolean; absent and null give False."""
        return self.flag(key) if self.has(key) else False

    def part(self, key: str) -> Body:
        """Read an object."""
        return Body(self._call, self._read(key, dict))

    def parts(self, key: str) -> list[Body]:
        """Read a list of objects."""
        return [Body(self._call, item) for item in self._read(key, list)]

    def optional_parts(self, key: str) -> list[Body]:
        """Read a list of objects; null gives the empty list, but the field must be there."""
        if key in self._value and self._value[key] is None:
            return []
        return self.parts(key)

    def texts(self, key: str) -> list[str]:
        """Read a list of strings."""
        items = self._read(key, list)
        if not all(isinstance(item, str) for item in items):
            raise unreadable(self._call, f"{key!r} with something else than strings")
        return list(items)

    def texts_by_key(self, key: str) -> dict[str, str]:
        """Read an object of strings; absent and null give the empty one."""
        found = self._read(key, dict) if self.has(key) else {}
        if not all(isinstance(value, str) for value in found.values()):
            raise unreadable(self._call, f"{key!r} with something else than strings")
        return dict(found)

    def any_instant(self, key: str) -> datetime:
        """Read unix seconds that a client set, clamped to what `datetime` holds, as in a dump."""
        from spark_core.graveler import Timestamp

        return Timestamp(self.integer(key)).instant()

    def instant(self, key: str) -> datetime:
        """Read unix seconds as an aware instant in UTC."""
        seconds = self.integer(key)
        try:
            return datetime.fromtimestamp(seconds, UTC)
        except (ValueError, OverflowError, OSError):
            raise unreadable(self._call, f"{key!r} = {seconds}, which is no instant") from None

    def run_id(self) -> str:
        """Read a run id, which must be an xid, because paths are made of it."""
        found = self.text("run_id")
        if not _XID.fullmatch(found):
            raise unreadable(
                self._call,
                f"the run id {found[:40]!r}, which is not an xid (20 characters 0-9 a-v)",
            )
        return found

    def table_id(self, key: str) -> str:
        """Read the id of a table, 64 hex digits."""
        return self._hash(key, self.text(key), "table")

    def commit_id(self, key: str) -> str:
        """Read the id of a commit, 64 hex digits."""
        return self._hash(key, self.text(key), "commit")

    def commit_ids(self, key: str) -> list[str]:
        """Read a list of commit ids."""
        return [self._hash(key, found, "commit") for found in self.texts(key)]

    def _hash(self, key: str, found: str, what: str) -> str:
        if not _HASH.fullmatch(found):
            raise unreadable(
                self._call,
                f"{key!r} = {found[:80]!r}, which is not the id of a {what} (64 hex digits)",
            )
        return found

    def _read(self, key: str, kind: type) -> Any:
        value = self._value.get(key)
        # In Python, True is an int; in JSON it is not.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            found = type(value).__name__ if key in self._value else "nothing"
            raise unreadable(self._call, f"{found} where {key!r} should be {kind.__name__}")
        return value


def unreadable(call: Call, found: str) -> IncompleteReadError:
    """Refuse an answer that is not as documented."""
    return IncompleteReadError(
        f"{call.subject}: the server answered {found}; an answer that cannot be read is not taken "
        "for an empty one",
        "Run again; if it stays, report the server's version and this text.",
    )
