"""The deletion that all stores share: keys checked, sent in batches, asked for again if busy.

A store gives `delete_in_batches` one function that sends one request and reads the answer key by
key. Throttling costs waiting, never a lost outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tenacity import retry_if_result

from spark_core.addresses.collectable import NOT_NAMEABLE_PATTERN
from spark_core.backoff import Backoff
from spark_core.storage.options import StoreOptions
from spark_core.storage.outcomes import DeleteOutcome, Outcome, Outcomes, Pace, unpaced

# Keys that are deleted one by one share a pace for at most this long.
_ONE_PACE_SECONDS = 5.0

# Tests replace it, to save time.
wait: Callable[[float], None] = time.sleep
monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class KeyAnswer:
    """What a store said of one key.

    Attributes:
        outcome: The outcome to report unless the key is asked for again.
        error: The reason, for `refused` and `failed`.
        passing: The store was busy or had a passing fault; asked again later it may answer
            otherwise.
    """

    outcome: Outcome
    error: str | None = None
    passing: bool = False


_NOT_MENTIONED = KeyAnswer("failed", "the store's answer does not mention the key")

Send = Callable[[Sequence[str]], Mapping[str, KeyAnswer]]


def unsafe_name(key: str) -> str | None:
    """Say why a key is unsafe: some client, server or file system would take it for another."""
    return "the key cannot be named safely" if NOT_NAMEABLE_PATTERN.search(key) else None


def delete_in_batches(
    keys: Sequence[str],
    send: Send,
    options: StoreOptions,
    *,
    size: int,
    pace: Pace = unpaced,
    unsafe: Callable[[str], str | None] = unsafe_name,
) -> Outcomes:
    """Delete keys, each asked for once unless the store could not at that moment.

    The throttled part of a batch is repeated before the next batch is sent, so a busy store sees
    fewer requests rather than more. Such a repetition is bounded by `max_retries` and
    `retry_timeout`; after that the key is `failed`.

    Args:
        keys: As `ObjectStore.delete` gets them.
        send: Sends one request for these keys and never raises for the store's answer. A key
            without an answer is `failed`; answers for keys that were not asked for are dropped.
        options: Bounds of the repetition.
        size: Most keys of one request.
        pace: Called before each request, repeated ones too.
        unsafe: Why a key must not be sent; None if it may.

    Returns:
        One outcome per key, in the order given; a key given twice is asked for once.
    """
    outcomes = {key: DeleteOutcome(key, "refused", why) for key in keys if (why := unsafe(key))}
    asked = [key for key in dict.fromkeys(keys) if key not in outcomes]
    for start in range(0, len(asked), size):
        outcomes.update(_persistently(asked[start : start + size], send, options, pace))
    return [outcomes[key] for key in keys]


def _persistently(
    keys: Sequence[str], send: Send, options: StoreOptions, pace: Pace
) -> dict[str, DeleteOutcome]:
    outcomes: dict[str, DeleteOutcome] = {}
    left = list(keys)

    def ask() -> bool:
        nonlocal left
        pace()
        found = send(left)
        answers = {key: found.get(key, _NOT_MENTIONED) for key in left}
        outcomes.update(
            (key, DeleteOutcome(key, answer.outcome, answer.error))
            for key, answer in answers.items()
        )
        left = [key for key in left if answers[key].passing]
        if left:
            pace.busy(len(left))
        return bool(left)

    # The first pause is never below a second: a limit per second must hold for repetitions too.
    bounds = Backoff(
        tries=options.max_retries + 1, within_seconds=options.retry_timeout.total_seconds()
    )
    bounds.ask(ask, again=retry_if_result(bool), sleep=wait)
    return outcomes


def one_by_one(
    keys: Sequence[str], delete_one: Callable[[str], KeyAnswer], pace: Pace
) -> dict[str, KeyAnswer]:
    """Delete the keys of one batch with a request for each, if the store takes no more.

    Such a batch may take long, for example when a mount hangs or a service is busy. So the pace is
    called again on the way.

    Args:
        keys: The keys of one batch, before which the pace was called.
        delete_one: Sends one request.
        pace: An error of it ends the batch. What became of the keys before must then be found out
            later.
    """
    answers: dict[str, KeyAnswer] = {}
    paced_at = monotonic()
    for key in keys:
        if monotonic() - paced_at >= _ONE_PACE_SECONDS:
            pace()
            paced_at = monotonic()
        answers[key] = delete_one(key)
    return answers
