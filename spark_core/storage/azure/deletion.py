"""Send a bulk deletion to Azure, once; the answer for each name is in `deletion_answers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from azure.storage.blob import ContainerClient

from spark_core.storage.azure.account import Account
from spark_core.storage.azure.deletion_answers import ANSWERED_BY_NAME, answers_by_name
from spark_core.storage.azure.errors import (
    CLIENT_ERRORS,
    AzureFailure,
    deletion_answer,
    failure_of,
)
from spark_core.storage.deletion import KeyAnswer

# Answers to a whole bulk deletion that mean "not here" or "not so". Then keys are deleted one by
# one.
_NO_BULK = {400, 404, 405, 409, 411, 415, 501}


def send_bulk(
    container: ContainerClient, account: Account, names: Sequence[str]
) -> dict[str, KeyAnswer] | None:
    """Send one request, snapshots included.

    The client itself repeats a request that was throttled as a whole. A request that it sent twice,
    because the first answer was lost, ends in `already_gone`.

    Returns:
        An answer by name; None if the store takes no bulk requests.
    """
    answers: list[Any] = []
    more: dict[str, Any] = {"url_prepend": account.name} if account.path_style else {}
    failure: AzureFailure | None = None
    try:
        container.delete_blobs(
            *names,
            delete_snapshots="include",
            raise_on_any_failure=False,
            raw_response_hook=lambda answer: answers.append(answer.http_response),
            **more,
        )
    except CLIENT_ERRORS as error:
        failure = failure_of(error)
    if answers and answers[-1].status_code == ANSWERED_BY_NAME:
        # This stands whatever the client made of the answer: it knows the names only by position.
        return answers_by_name(names, answers[-1])
    if failure is None:
        return {}
    if _knows_no_bulk(failure):
        return None
    return dict.fromkeys(names, deletion_answer(failure, again=False))


def _knows_no_bulk(failure: AzureFailure) -> bool:
    """Say whether a failure means that the store takes no bulk requests."""
    return failure.status in _NO_BULK and failure.code != "ContainerNotFound"
