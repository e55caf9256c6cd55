"""What Azure Blob Storage answers to a bulk deletion, name by name.

The client gives the answers by position. But the store names each by a number, and may answer in
another order, or only once for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from spark_core.storage.azure.errors import AzureFailure, deletion_answer
from spark_core.storage.deletion import KeyAnswer

ANSWERED_BY_NAME = 202
"""The status of a bulk deletion, and of each name of it that is gone."""

_BOUNDARY = re.compile(r'boundary="?([^";,\s]+)"?')
_NUMBER = re.compile(rb"^Content-ID:[ \t]*(\d+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"^HTTP/1\.[01] (\d{3})\b", re.MULTILINE)
_CODE = re.compile(rb"^x-ms-error-code:[ \t]*(\w{1,80})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


def answers_by_name(names: Sequence[str], answer: Any) -> dict[str, KeyAnswer]:
    """Read what the store answers for each name.

    A refusal that names no blob holds for all names without an answer of their own. A confirmation
    that names no blob confirms nothing: only one blob can be said to be gone.
    """
    found, whole = batch_answers(answer.body(), answer.headers.get("Content-Type", ""), len(names))
    answers: dict[str, KeyAnswer] = {}
    for number, name in enumerate(names):
        failure = found.get(number)
        if failure is not None and failure.status == ANSWERED_BY_NAME:
            answers[name] = KeyAnswer("deleted")
        elif failure is not None:
            answers[name] = deletion_answer(failure, again=True)
        elif whole is not None and not whole.absent:
            answers[name] = deletion_answer(whole, again=True)
    return answers


def batch_answers(
    body: bytes, content_type: str, count: int
) -> tuple[dict[int, AzureFailure], AzureFailure | None]:
    """Read the answers to a bulk deletion.

    Args:
        body: `multipart/mixed`, one HTTP answer in each part.
        content_type: Its header, which names the boundary.
        count: How many keys were asked for.

    Returns:
        The answers by the number of the key in the request, and one answer that names no key and so
        holds for the request as a whole. A number that is answered twice has no answer: nobody can
        tell which one is true.
    """
    match = _BOUNDARY.search(content_type)
    found: dict[int, list[AzureFailure]] = {}
    whole: AzureFailure | None = None
    for number, answer in _parts(body, match[1].encode()) if match else ():
        if number is None:
            whole = whole or answer
        elif number < count:
            found.setdefault(number, []).append(answer)
    return {number: answers[0] for number, answers in found.items() if len(answers) == 1}, whole


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[int | None, AzureFailure]]:
    for part in body.split(b"--" + boundary)[1:]:
        status = _STATUS.search(part)
        if status is None:
            continue
        code = _CODE.search(part, status.start())
        number = _NUMBER.search(part, 0, status.start())
        yield (
            (int(number[1]) if number else None),
            AzureFailure(int(status[1]), code[1].decode() if code else ""),
        )
