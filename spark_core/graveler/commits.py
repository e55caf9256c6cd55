"""Encode and decode commits, branches and tags as a refs dump stores them.

References:
    lakefs-facts 3.1-3.3; lakeFS v1.84 `pkg/graveler/graveler.proto`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark_core.graveler.encoded_entries import Timestamp
from spark_core.graveler.identity import commit_id
from spark_core.graveler.wire import (
    BYTES,
    VARINT,
    ReadFile,
    bytes_field,
    map_field,
    message_field,
    read_fields,
    read_map_entry,
    read_text,
    varint_field,
)
from spark_core.model import Branch, Commit, Tag

COMMIT, BRANCH, TAG = "commit", "branch", "tag"

_TEXT, _NUMBER, _FLAG, _MESSAGE = "TYPE_STRING", "TYPE_INT32", "TYPE_BOOL", "TYPE_MESSAGE"
_ONE, _MANY = "LABEL_OPTIONAL", "LABEL_REPEATED"
_PACKAGE = "io.treeverse.lakefs.graveler"

# Name, label and type of the fields, in order of field number.
_SCHEMAS: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    COMMIT: (
        "CommitData",
        [
            ("id", _ONE, _TEXT),
            ("committer", _ONE, _TEXT),
            ("message", _ONE, _TEXT),
            ("creation_date", _ONE, _MESSAGE),
            ("meta_range_id", _ONE, _TEXT),
            ("metadata", _MANY, _MESSAGE),
            ("parents", _MANY, _TEXT),
            ("version", _ONE, _NUMBER),
            ("generation", _ONE, _NUMBER),
        ],
    ),
    BRANCH: (
        "BranchData",
        [
            ("id", _ONE, _TEXT),
            ("commit_id", _ONE, _TEXT),
            ("staging_token", _ONE, _TEXT),
            ("sealed_tokens", _MANY, _TEXT),
            ("hidden", _ONE, _FLAG),
        ],
    ),
    TAG: ("TagData", [("id", _ONE, _TEXT), ("commit_id", _ONE, _TEXT)]),
}


def _wire_types(entity: str) -> dict[int, int]:
    fields = _SCHEMAS[entity][1]
    return {
        number: VARINT if kind in (_NUMBER, _FLAG) else BYTES
        for number, (_, _, kind) in enumerate(fields, start=1)
    }


_WIRE_TYPES = {entity: _wire_types(entity) for entity in _SCHEMAS}
_REPEATED = {
    entity: {number for number, (_, label, _) in enumerate(fields, start=1) if label == _MANY}
    for entity, (_, fields) in _SCHEMAS.items()
}


def dump_properties(entity: str) -> dict[str, str]:
    """Return the properties that the server sets on each file of a dump, part of the file's id."""
    message, fields = _SCHEMAS[entity]
    return {
        "entity": entity,
        "schema_name": f"{_PACKAGE}.{message}",
        "schema_definition": _schema_definition(message, fields),
    }


def _schema_definition(message: str, fields: list[tuple[str, str, str]]) -> str:
    types = {
        "creation_date": ".google.protobuf.Timestamp",
        "metadata": f".{_PACKAGE}.{message}.MetadataEntry",
    }
    described = [
        _described(number, *described, types) for number, described in enumerate(fields, start=1)
    ]
    definition: dict[str, Any] = {"name": message, "field": described}
    if any(name == "metadata" for name, _, _ in fields):
        pair = [_described(1, "key", _ONE, _TEXT, {}), _described(2, "value", _ONE, _TEXT, {})]
        definition["nestedType"] = [
            {"name": "MetadataEntry", "field": pair, "options": {"mapEntry": True}}
        ]
    return json.dumps(definition, separators=(", ", ":"))


def _described(
    number: int, name: str, label: str, kind: str, types: Mapping[str, str]
) -> dict[str, Any]:
    head, *tail = name.split("_")
    described: dict[str, Any] = {"name": name, "number": number, "label": label, "type": kind}
    if kind == _MESSAGE:
        described["typeName"] = types[name]
    return {**described, "jsonName": head + "".join(word.capitalize() for word in tail)}


@dataclass(frozen=True)
class CommitRecord:
    """A commit with all the fields that the server stores.

    Attributes:
        id: Commit id; `with_id` computes it.
        committer: Who committed; empty for a repository's first commit.
        message: The commit message.
        creation_date: Any instant, because the API accepts whatever date a client sends.
        metarange_id: Id of its metarange; empty for a repository's first commit.
        metadata: User metadata; its order is kept.
        parents: Parent ids in stored order.
        version: 0, or 1 since the order of a merge's parents was switched.
        generation: Distance from the root.
    """

    committer: str
    message: str
    creation_date: Timestamp
    metarange_id: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    parents: tuple[str, ...] = ()
    version: int = 1
    generation: int = 1
    id: str = ""

    def with_id(self) -> CommitRecord:
        """Return the same commit with the id that its content gives."""
        return replace(
            self,
            id=commit_id(
                committer=self.committer,
                message=self.message,
                metarange_id=self.metarange_id,
                creation_date=self.creation_date.seconds,
                metadata=self.metadata,
                parents=self.parents,
            ),
        )

    def as_commit(self) -> Commit:
        """Return the part of the commit that the commit graph needs."""
        return Commit(
            id=self.id,
            parents=self.parents,
            creation_date=self.creation_date.instant(),
            metarange_id=self.metarange_id,
            version=self.version,
            generation=self.generation,
        )


def encode_commit(commit: CommitRecord) -> bytes:
    """Encode a commit as CommitData."""
    return b"".join(
        (
            bytes_field(1, commit.id.encode()),
            bytes_field(2, commit.committer.encode()),
            bytes_field(3, commit.message.encode()),
            message_field(4, commit.creation_date.encode()),
            bytes_field(5, commit.metarange_id.encode()),
            map_field(6, commit.metadata),
            *(message_field(7, parent.encode()) for parent in commit.parents),
            varint_field(8, commit.version),
            varint_field(9, commit.generation),
        )
    )


def decode_commit(payload: bytes, source: ReadFile) -> CommitRecord:
    """Decode CommitData.

    An unknown field is skipped, so that dumps of a newer server can be read. The
    known fields hold the metarange and the parents of the commit, and the server
    raises `version` when their meaning changes.

    Raises:
        CorruptTableError: If the message is broken.
    """
    texts = {1: "", 2: "", 3: "", 5: ""}
    numbers = {8: 0, 9: 0}
    metadata: dict[str, str] = {}
    parents: list[str] = []
    created = Timestamp(0)
    fields = read_fields(
        payload, _WIRE_TYPES[COMMIT], source, repeated=_REPEATED[COMMIT], others_matter=False
    )
    for number, value, raw in fields:
        if number in texts:
            texts[number] = read_text(raw, source)
        elif number in numbers:
            numbers[number] = value
        elif number == 4:
            created = Timestamp.decode(raw, source)
        elif number == 6:
            key, text = read_map_entry(raw, source)
            metadata[key] = text
        else:
            parents.append(read_text(raw, source))
    return CommitRecord(
        id=texts[1],
        committer=texts[2],
        message=texts[3],
        creation_date=created,
        metarange_id=texts[5],
        metadata=metadata,
        parents=tuple(parents),
        version=numbers[8],
        generation=numbers[9],
    )


def encode_pointer(pointer: Branch | Tag) -> bytes:
    """Encode a branch or tag: a dump holds only its id and commit id."""
    return bytes_field(1, pointer.id.encode()) + bytes_field(2, pointer.commit_id.encode())


def decode_pointer(payload: bytes, entity: str, source: ReadFile) -> tuple[str, str]:
    """Decode BranchData or TagData to its id and commit id.

    An unknown field is skipped. The commit id stands twice, here and in the
    record's identity, and staged entries are not read from a dump.

    Raises:
        CorruptTableError: If the message is broken.
    """
    texts = {1: "", 2: ""}
    fields = read_fields(
        payload, _WIRE_TYPES[entity], source, repeated=_REPEATED[entity], others_matter=False
    )
    for number, _, raw in fields:
        if number in texts:
            texts[number] = read_text(raw, source)
    return texts[1], texts[2]
