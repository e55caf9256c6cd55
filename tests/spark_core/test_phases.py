"""The phase that an error leaves adds the state of the world, once, wherever it came from."""

import ast
import pickle
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spark_core import errors, phases
from spark_core.errors import (
    CorruptTableError,
    LakegcError,
    RefusedError,
    SettingsError,
    TransientError,
    sentences,
)
from spark_core.phases import (
    NOTHING_BY_THIS_SWEEP,
    NOTHING_DELETED,
    Deleting,
    add_state,
    ended_a_command,
    keeping_house,
    phase,
    restoring,
    state_of,
)


def leaving(error, *states):
    """The error after it has left phases, the innermost one first."""

    def work():
        raise error

    for state in states:
        work = phase(state)(work)
    with pytest.raises(type(error)) as left:
        work()
    return left.value


def classes(of=LakegcError):
    yield of
    for below in of.__subclasses__():
        yield from classes(below)


def test_an_error_says_what_was_found_the_next_step_and_the_state_in_this_order():
    error = TransientError("the store did not answer", "Run again.")
    assert str(error) == "the store did not answer. Run again."
    assert (
        str(leaving(error, NOTHING_DELETED))
        == "the store did not answer. Run again. Nothing was deleted."
    )
    assert error.message == "the store did not answer. Run again."


def test_the_innermost_phase_knows_best_and_says_it_once():
    error = leaving(
        RefusedError("doubt", "Look."), "3 objects are gone.", NOTHING_DELETED, NOTHING_DELETED
    )
    assert str(error) == "doubt. Look. 3 objects are gone."


def test_what_a_phase_has_done_is_asked_for_when_the_error_leaves_it():
    done = []

    @phase(lambda: f"{len(done)} objects are gone.")
    def work():
        done.append("data/a")
        raise RefusedError("doubt")

    with pytest.raises(RefusedError) as refused:
        work()
    assert str(refused.value) == "doubt. 1 objects are gone."


def test_work_that_ends_well_hears_nothing_of_its_phase():
    with phase(lambda: pytest.fail("nobody asked")):
        pass


@pytest.mark.parametrize("kind", list(classes()))
def test_every_error_keeps_its_class_its_words_and_its_state_through_a_pickle(kind):
    error = (
        kind("abc", 17, "a problem")
        if issubclass(kind, CorruptTableError)
        else kind("found", "Do so.")
    )
    for one in (error, leaving(error, NOTHING_DELETED)):
        copy = pickle.loads(pickle.dumps(one))
        assert (type(copy), str(copy), vars(copy), copy.args) == (
            kind,
            str(one),
            vars(one),
            one.args,
        )


@pytest.mark.parametrize("kind", list(classes()))
def test_an_error_is_made_again_from_its_words(kind):
    error = kind.from_message("what was found. What to do.")
    assert (type(error), str(error)) == (kind, "what was found. What to do.")
    assert str(leaving(error, NOTHING_DELETED)).endswith("What to do. Nothing was deleted.")


def test_an_error_of_somebody_else_carries_the_state_as_one_note():
    error = leaving(ZeroDivisionError("a bug"), "3 objects are gone.", NOTHING_DELETED)
    assert type(error) is ZeroDivisionError
    assert error.__notes__ == ["3 objects are gone."]


def test_a_command_that_ends_outside_every_phase_has_done_nothing():
    assert (
        str(ended_a_command(SettingsError("no keys", "Set them.")))
        == "no keys. Set them. Nothing was started."
    )
    assert str(ended_a_command(RefusedError("doubt"))) == "doubt. Nothing was deleted."
    assert (
        str(ended_a_command(add_state(RefusedError("doubt"), "3 are gone.")))
        == "doubt. 3 are gone."
    )


def test_a_sweep_has_deleted_nothing_until_its_first_round_begins():
    done = Deleting("s3://bucket/journal/")
    assert done() == NOTHING_BY_THIS_SWEEP
    done.round_begins(datetime(2026, 9, 1, 2, 30, tzinfo=UTC))
    assert "Deletions had begun: this sweep is known to have deleted 0 objects" in done()
    assert "s3://bucket/journal/" in done()
    assert "No deletion is sent after 2026-09-01T02:30:00+00:00." in done()
    done.round_begins(datetime(2026, 9, 1, 2, 30, 0, 1, tzinfo=UTC))
    assert "No deletion is sent after 2026-09-01T02:30:01+00:00." in done()
    done.round_ended(1200)
    assert "known to have deleted 1,200 objects" in done()
    done.round_ended(1200, 7)
    assert "deleted 1,200 objects in rounds that ended, and left 7; none is under way" in done()
    assert "sent after" not in done()
    done.round_begins(datetime(2026, 9, 1, 2, 40, tzinfo=UTC))
    assert "No deletion is sent after 2026-09-01T02:40:00+00:00." in done()


def test_an_interrupt_has_the_sentence_of_who_counts_and_no_other():
    outer = phase("Nothing of repo was deleted.")
    with pytest.raises(KeyboardInterrupt) as ended, outer, phase(lambda: "3 are gone."):
        raise KeyboardInterrupt
    assert state_of(ended.value) == "3 are gone."
    with pytest.raises(KeyboardInterrupt) as ended, phase("Nothing of repo was deleted."):
        raise KeyboardInterrupt
    assert state_of(ended.value) is None


def test_a_restore_deletes_nothing_and_says_what_is_back():
    assert restoring(0) == NOTHING_DELETED
    assert (
        restoring(1200)
        == "Nothing was deleted, and 1,200 objects are known to be back in their places."
    )


def test_house_keeping_says_what_it_took_once_it_has_begun():
    assert keeping_house(None) == "House-keeping deleted nothing."
    assert keeping_house(0) == "House-keeping had begun, and is known to have deleted 0 objects."


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("found", "Do."), "found. Do."),
        (("found.", "Do."), "found. Do."),
        (("found (as `it` is.)", "Do."), "found (as `it` is.) Do."),
        (("found, is it?", "", "Nothing."), "found, is it? Nothing."),
        (("found", ""), "found"),
        (("", ""), ""),
    ],
)
def test_texts_become_sentences_only_where_another_one_follows(parts, text):
    assert sentences(*parts) == text


def test_a_damaged_file_is_explained_by_whose_it_is():
    assert "Compare the file with the server's copy" in str(
        CorruptTableError("abc", 17, "checksum differs")
    )
    own = str(CorruptTableError("abc", None, "edited", errors.OF_A_RUN))
    assert own.startswith("abc: edited. This is a file of lakegc's own, not of the server.")
    assert "server's copy" not in own


# What only a phase knows. "Nothing was changed" is not among it: a command's own code knows that.
_OF_A_PHASE = re.compile(
    r"\bnothing (?:more )?(?:of \w+ \w+ )?was (?:deleted|started|purged|read|asked|looked at)\b"
    r"|\bnothing more is (?:deleted|sent)\b|\bwhat was deleted (?:before )?stands\b",
    re.IGNORECASE,
)


def said_in(file):
    """Texts of a module with their lines, without docstrings; adjacent literals are one text."""
    docstrings = set()
    # A statement comes before what it is made of.
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Expr):
            docstrings.add(id(node.value))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            yield node.lineno, node.value


def test_no_message_says_what_only_the_phase_of_the_work_knows():
    root = Path(phases.__file__).parents[1]
    files = [
        file
        for package in ("spark_core", "lakegc_dagster")
        for file in sorted((root / package).rglob("*.py"))
    ]
    assert len(files) > 150
    # Each text that is looked for has one of them; most modules have none.
    words = re.compile("nothing|stands", re.IGNORECASE)
    offenders = [
        f"{file.relative_to(root)}:{line}: {text.strip()[:120]}"
        for file in files
        if file != Path(phases.__file__) and "sandbox" not in file.parts
        if words.search(file.read_text())
        for line, text in said_in(file)
        if _OF_A_PHASE.search(text)
    ]
    assert not offenders, (
        "say what was found and the next step, and let spark_core/phases.py say the rest:\n"
        + "\n".join(offenders)
    )


def test_a_message_that_says_it_is_found(tmp_path):
    (tmp_path / "a.py").write_text(
        '"""Nothing was deleted."""\nraise E(\n    "found; nothing was "\n    f"deleted. {x}"\n)\n'
    )
    assert [line for line, text in said_in(tmp_path / "a.py") if _OF_A_PHASE.search(text)] == [3]
