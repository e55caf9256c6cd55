"""The way of a deletion that all stores share: keys checked, sent in batches, asked for again where the store could not now.

A store gives `delete_in_batches` one function that sends one request and reads
the answer key by key. What throttling costs is waiting, never a lost outcome.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_core.addresses.collectable import NOT_NAMEABLE_PATTERN
from spark_core.storage.contract import DeleteOutcome, Outcome, Outcomes, Pace, StoreOptions, unpaced

_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0

# Keys that are deleted one by one share a pace for no longer than this.
_ONE_PACE_SECONDS = 5.0

# Replaced by tests, which have no time.
wait: Callable[[float], None] = time.sleep
monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Answer:
    """What a store said of one key.

    Attributes:
        outcome: As it is reported unless the key is asked for again.
        error: Why, for `refused` and `failed`.
        passing: The store was busy or stumbled: asked again later it may say otherwise.
    """

    outcome: Outcome
    error: str | None = None
    passing: bool = False


_NOT_MENTIONED = Answer("failed", "the store's answer does not mention the key")

Send = Callable[[Sequence[str]], Mapping[str, Answer]]


def unsafe_name(key: str) -> str | None:
    """Say why a key is not asked for: some client, server or file system would take it for another one."""
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

    What a batch was throttled for is repeated before the next batch is sent, so
    a busy store sees fewer requests rather than more. Such a repetition is
    bounded by `max_retries` and `retry_timeout`; after that the key is `failed`.

    Args:
        keys: As `ObjectStore.delete` gets them.
        send: Sends one request for these keys and never raises for what the store says. A key that its
            answer lacks is `failed`; what it tells of keys that were not asked for is dropped.
        options: Bounds of the repetition.
        size: Most keys of one request.
        pace: Called before each request, repeated ones too.
        unsafe: Why a key must not be sent; None if it may.

    Returns:
        One outcome per key, in the order given; a key given twice is asked for once.
    """
    told = {key: DeleteOutcome(key, "refused", why) for key in keys if (why := unsafe(key))}
    asked = [key for key in dict.fromkeys(keys) if key not in told]
    for start in range(0, len(asked), size):
        told.update(_persistently(asked[start : start + size], send, options, pace))
    return [told[key] for key in keys]


def _persistently(keys: Sequence[str], send: Send, options: StoreOptions, pace: Pace) -> dict[str, DeleteOutcome]:
    told: dict[str, DeleteOutcome] = {}
    left = list(keys)
    for delay in (*waits(options), None):
        pace()
        found = send(left)
        answers = {key: found.get(key, _NOT_MENTIONED) for key in left}
        told.update((key, DeleteOutcome(key, answer.outcome, answer.error)) for key, answer in answers.items())
        left = [key for key in left if answers[key].passing]
        if not left or delay is None:
            break
        wait(delay)
    return told


def waits(options: StoreOptions) -> Iterator[float]:
    """Yield the seconds to wait before each repetition: doubling, spread so that tasks do not come back at once."""
    waited = 0.0
    for number in range(options.max_retries):
        # Never below a second: a limit per second must hold for repetitions too.
        delay = min(_FIRST_WAIT_SECONDS * 2**number, _LONGEST_WAIT_SECONDS) * random.uniform(1, 1.5)  # noqa: S311 - no secret
        waited += delay
        if waited > options.retry_timeout.total_seconds():
            return
        yield delay


def one_by_one(keys: Sequence[str], delete_one: Callable[[str], Answer], pace: Pace) -> dict[str, Answer]:
    """Delete the keys of one batch with a request for each, where the store takes no more.

    A batch of them may take long, as when a mount hangs or a service is busy; so the pace is asked again on the way.

    Args:
        keys: Of one batch, before which the pace was called.
        delete_one: Sends one request.
        pace: What it raises ends the batch; what became of the keys before is then for the next look to find out.
    """
    told: dict[str, Answer] = {}
    paced_at = monotonic()
    for key in keys:
        if monotonic() - paced_at >= _ONE_PACE_SECONDS:
            pace()
            paced_at = monotonic()
        told[key] = delete_one(key)
    return told
