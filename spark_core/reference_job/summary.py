"""What a mark of lakeFS's own job says of itself: its `summary.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from spark_core.errors import CorruptTableError
from spark_core.json_and_toml import read_json

WAY_ON = "This is a file of the reference job's mark. Name another mark, or mark with lakegc."


@dataclass(frozen=True)
class Summary:
    """What `summary.json` says; the names are the job's own.

    Attributes:
        run_id: Id of the mark.
        success: Whether the job went on to its end.
        first_slice: Some slice that it listed; nothing reads it.
        start_time: When it started, ISO 8601 in UTC.
        cutoff_time: Objects written at or after it were left alone, ISO 8601 in UTC.
        num_deleted_objects: How many addresses the mark names, deleted or not.
    """

    run_id: str
    success: bool
    first_slice: str
    start_time: str
    cutoff_time: str
    num_deleted_objects: int

    def to_json(self) -> bytes:
        """Write it as the job does, on one line."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Summary:
        """Read it; fields that a later job may add are ignored.

        Raises:
            CorruptTableError: If a field is missing or of another type.
        """
        try:
            document = read_json(data)
            fields = {field: document[field] for field in cls.__dataclass_fields__}
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptTableError(
                name, None, f"not the summary of a mark of the reference job ({problem!r})", WAY_ON
            ) from None
        for field, kind in (("run_id", str), ("success", bool), ("num_deleted_objects", int)):
            if type(fields[field]) is not kind:
                raise CorruptTableError(
                    name, None, f"`{field}` is {fields[field]!r}, wanted a {kind.__name__}", WAY_ON
                )
        return cls(**fields)
