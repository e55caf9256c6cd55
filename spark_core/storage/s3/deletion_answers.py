"""What S3 answers to a bulk deletion, name by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_core.storage.deletion import KeyAnswer
from spark_core.storage.s3.errors import deletion_answer


def answers_by_name(names: Sequence[str], answer: Mapping[str, Any]) -> dict[str, KeyAnswer]:
    """Read what the store answers for each name; it may also answer for names not in the request.

    Args:
        names: Those of the request.
        answer: What boto3 made of the answer.
    """
    answers = {
        entry["Key"]: KeyAnswer("deleted") for entry in answer.get("Deleted", []) if "Key" in entry
    }
    of_none: KeyAnswer | None = None
    for entry in answer.get("Errors", []):
        outcome = deletion_answer(str(entry.get("Code")))
        if entry.get("Key"):
            answers[entry["Key"]] = outcome
        elif outcome.outcome != "already_gone":
            # Some stores refuse the whole request like this. Only a single object can be said to
            # be gone.
            of_none = of_none or outcome
    return answers if of_none is None else {**dict.fromkeys(names, of_none), **answers}
