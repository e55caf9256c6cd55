"""How the engine's errors end a Dagster step."""

from datetime import timedelta

import dagster as dg
import pytest

from lakegc_dagster.in_dagster import failures
from lakegc_dagster.in_dagster.failures import raising_failures
from lakegc_dagster.resources import Runs, SparkResource, Wiring, build_resources
from spark_core.errors import (
    CorruptTableError,
    DeletionFailedError,
    LakegcError,
    LeaseHeldError,
    NotFoundError,
    PermissionDeniedError,
    RefusedError,
    SameWorkError,
    SettingsError,
    TransientError,
)
from spark_core.lakefs.failures import NeverAnsweredError, ServerAwayError
from spark_core.tries import RETRIES, RETRIES_BESIDE_THE_SAME


def run_raising(error, *, heals_after=None):
    """Run an asset that raises; (result, attempts, errors seen)."""
    seen = []
    attempts = []

    @dg.asset
    def table() -> None:
        attempts.append(1)
        with raising_failures(seen.append, retry_after=timedelta(0)):
            if heals_after is None or len(attempts) <= heals_after:
                raise error

    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize([table], instance=instance, raise_on_error=False)
    return result, len(attempts), seen


def failure_of(result):
    (event,) = [event for event in result.all_events if event.is_step_failure]
    return event.step_failure_data


@pytest.mark.parametrize(
    "kind", [SettingsError, PermissionDeniedError, NotFoundError, DeletionFailedError, RefusedError]
)
def test_an_error_is_shown_with_its_class_and_whole_message_and_is_not_tried_again(kind):
    error = kind("repository r: found this, wanted that. Do so.")
    result, attempts, seen = run_raising(error)
    assert attempts == 1
    assert seen == [error]
    shown = failure_of(result).user_failure_data
    assert shown.description == f"{kind.__name__}: repository r: found this, wanted that. Do so."
    assert shown.metadata["error"].value == kind.__name__


def test_a_broken_table_is_shown_with_its_name_and_offset():
    result, _, _ = run_raising(CorruptTableError("abc", 17, "checksum differs"))
    assert (
        "CorruptTableError: abc at offset 17: checksum differs"
        in failure_of(result).user_failure_data.description
    )


def test_a_passing_error_is_tried_again_and_may_pass():
    result, attempts, _ = run_raising(TransientError("no answer"), heals_after=1)
    assert result.success
    assert attempts == 2


def test_a_passing_error_that_stays_ends_with_its_message_after_the_last_try():
    result, attempts, seen = run_raising(TransientError("no answer in 120 s"))
    assert attempts == RETRIES + 1
    assert len(seen) == attempts
    assert failure_of(result).user_failure_data.description == "TransientError: no answer in 120 s"


@pytest.mark.slow
def test_the_same_work_elsewhere_is_waited_for_up_to_a_bound():
    result, attempts, _ = run_raising(
        SameWorkError("the lease is that of the sweep of this run"), heals_after=5
    )
    assert result.success
    assert attempts == 6
    result, attempts, _ = run_raising(SameWorkError("the lease is that of the sweep of this run"))
    assert attempts == RETRIES_BESIDE_THE_SAME + 1
    shown = failure_of(result).user_failure_data.description
    assert shown == "SameWorkError: the lease is that of the sweep of this run"


@pytest.mark.slow
@pytest.mark.parametrize("waits", [0, RETRIES + 1, RETRIES_BESIDE_THE_SAME - RETRIES])
@pytest.mark.parametrize("heals_after", [RETRIES, RETRIES + 1])
def test_a_long_wait_for_the_same_work_takes_no_try_from_a_server_that_is_silent_afterwards(
    monkeypatch, waits, heals_after
):
    """The step is tried in one process, as its tries are by the code location's own executor."""
    errors = [SameWorkError("the lease is that of the sweep of this run")] * waits + [
        TransientError("no answer")
    ] * heals_after
    tries = iter(errors)

    def open_next(_runs, _repository, _key):
        error = next(tries, None)
        if error is not None:
            raise error

    monkeypatch.setattr(Runs, "_open", open_next)
    monkeypatch.setattr(SparkResource, "start_ahead", lambda _spark: None)
    seen = []

    @dg.asset
    def table(runs: Runs) -> None:
        with runs.opened("repo|2026-11-20T02-00-00Z", "deletion_report"):
            seen.append("made")

    wiring = Wiring(settings=None, retry_after=timedelta(0))
    runs = build_resources(wiring)["runs"]
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [table], instance=instance, resources={"runs": runs}, raise_on_error=False
        )
    assert result.success == (heals_after <= RETRIES)
    assert len(list(tries)) == 0


def test_what_another_marks_lease_says_fails_at_once():
    _, attempts, _ = run_raising(LeaseHeldError("the lease is that of the sweep of another run"))
    assert attempts == 1


def test_a_refusal_is_shown_as_its_sentence_and_the_stack_below_is_of_what_it_came_from():
    alone, _, _ = run_raising(RefusedError("found this", "Do that."))
    assert failure_of(alone).error.to_string().strip() == "RefusedError: found this. Do that."
    error = RefusedError("the file is gone")
    try:
        open("/no/such/file")  # noqa: SIM115, PTH123 - it is not there
    except OSError as cause:
        error.__cause__ = cause
    result, _, _ = run_raising(error)
    shown = failure_of(result).error.to_string()
    assert shown.startswith("RefusedError: the file is gone")
    assert shown.index("Stack Trace") > shown.index("FileNotFoundError")


def test_the_cause_is_kept_for_whoever_reads_the_stack():
    error = RefusedError("doubt")
    with pytest.raises(dg.Failure) as raised, raising_failures(lambda _: None):
        raise error
    assert raised.value.__cause__ is error
    with pytest.raises(dg.RetryRequested) as asked, raising_failures(lambda _: None):
        raise TransientError("busy")
    assert isinstance(asked.value.__cause__.__cause__, TransientError)


def test_what_is_no_error_of_ours_passes_through_unchanged():
    with pytest.raises(ZeroDivisionError), raising_failures(lambda _: None):
        raise ZeroDivisionError


def test_a_server_that_never_answered_is_not_asked_again():
    error = NeverAnsweredError("no server answers at http://lakfs.example.com", "Correct it.")
    result, attempts, seen = run_raising(error)
    assert (attempts, seen) == (1, [error])
    assert failure_of(result).user_failure_data.metadata["error"].value == "TransientError"


def test_every_class_of_the_tree_is_translated():
    def classes(of):
        yield of
        for below in of.__subclasses__():
            yield from classes(below)

    for kind in classes(LakegcError):
        error = (
            kind("name", 0, "problem") if issubclass(kind, CorruptTableError) else kind("message")
        )
        with pytest.raises((dg.Failure, dg.RetryRequested)), raising_failures(lambda _: None):
            raise error


def test_a_failure_names_a_class_by_which_the_error_can_be_made_again():
    shown = failures.failure_of(ServerAwayError("the server is away", "Wait."))
    assert shown.metadata["error"].value == "TransientError"
