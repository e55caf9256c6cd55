"""What GCS answers to a bulk deletion, name by name.

Each part of the answer carries the number of its name. So no answer is taken for another's (Google
promises no order), and a name without an answer stays unconfirmed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from email.parser import BytesParser
from typing import Any

from spark_core.storage.deletion import KeyAnswer
from spark_core.storage.gcs.errors import GcsFailure, deletion_answer, reason_of

_ANSWERED = re.compile(r"<?response-lakegc\+(\d{1,3})>?")
_STATUS = re.compile(rb"\s*HTTP/[\d.]+ (\d{3})\b")


def answers_by_name(names: Sequence[str], answer: Any) -> dict[str, KeyAnswer]:
    """Read what the store answers for each name.

    Args:
        names: Those of the request.
        answer: The answer of Google's client.
    """
    parts = batch_answers(answer.headers.get("Content-Type", ""), answer.content)
    return {
        names[number]: deletion_answer(failure)
        for number, failure in parts.items()
        if number < len(names)
    }


def batch_answers(content_type: str, body: bytes) -> dict[int, GcsFailure]:
    """Read what each part says.

    Args:
        content_type: Content type of the answer, which names the boundary.
        body: Body of the answer.

    Returns:
        Status and reason by the number of the part, for successes too. Only clear parts are
        returned, so nothing at all for an answer that is no batch. A number that is answered twice
        has no answer: nobody can tell which one is true.
    """
    message = BytesParser().parsebytes(
        b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n" + body
    )
    answers: dict[int, list[GcsFailure]] = {}
    for part in message.walk():
        number = _ANSWERED.fullmatch(str(part.get("Content-ID", "")).strip())
        payload = part.get_payload(decode=True)
        if (
            number is None
            or not isinstance(payload, bytes)
            or (status := _STATUS.match(payload)) is None
        ):
            continue
        _, _, rest = payload.replace(b"\r\n", b"\n").partition(b"\n\n")
        answers.setdefault(int(number[1]), []).append(GcsFailure(int(status[1]), reason_of(rest)))
    return {number: parts[0] for number, parts in answers.items() if len(parts) == 1}
