"""Define questions and findings, and turn a refusal into what was found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from spark_core.errors import LakegcError

P = TypeVar("P")

# Ends the first sentence of a message in one piece, for instance from an executor.
_SENTENCE = re.compile(r"""(?<=[\w)'"\]])\. (?=[A-Z`])""")


class UnknownError(Exception):
    """A question needs something that no earlier one has found out."""


@dataclass(frozen=True)
class ProbeAnswer:
    """The answer to a question.

    Attributes:
        text: What was found, for people.
        passed: Whether that is in order; None if that could not be decided.
        next_step: What to do about it; empty when there is nothing to do.
        figures: What was found, for programs; JSON values only, no secret.
    """

    text: str
    passed: bool | None = True
    next_step: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """What was found about one thing.

    Attributes:
        about: What it belongs to: settings, server, repository, store, inventory or machine.
        name: What was examined.
        passed: Whether it is in order; None if that could not be decided.
        found: What was found, for people.
        next_step: What to do; empty when there is nothing to do.
        figures: What was found, for programs.

    Examples:
        >>> Finding("store", "list", True, "the first page has 2 objects").next_step
        ''
    """

    about: str
    name: str
    passed: bool | None
    found: str
    next_step: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question(Generic[P]):
    """One thing to examine.

    Attributes:
        about: What it belongs to.
        name: What is examined.
        ask: Examines it; an error of lakegc that it raises is a finding.
    """

    about: str
    name: str
    ask: Callable[[P], ProbeAnswer]


def ask(question: Question[P], examination: P) -> Finding:
    """Ask one question; a refusal, or that it cannot be asked yet, is an answer too."""
    try:
        found = question.ask(examination)
    except UnknownError as unknown:
        found = ProbeAnswer(f"not looked at: {unknown}", None)
    except LakegcError as error:
        found = found_by(error)
    except (OSError, RuntimeError, ValueError) as error:
        # An error of a client library. Its text may hold anything, so only its name is shown.
        found = ProbeAnswer(
            "an error that lakegc does not know, "
            f"{type(error).__module__}.{type(error).__qualname__}",
            False,
            f"`lakegc mark` shows more of it; please report it with what `{question.about}: "
            f"{question.name}` was asked of.",
            {"error": type(error).__name__},
        )
    return Finding(
        question.about, question.name, found.passed, found.text, found.next_step, found.figures
    )


def found_by(error: LakegcError) -> ProbeAnswer:
    """Return what an error found, and its next step."""
    found, step = error.found, error.next_step
    if not step:
        found, step = (*_SENTENCE.split(found, maxsplit=1), "")[:2]
    return ProbeAnswer(
        found.strip(), False, step or "Mend that, and ask again.", {"error": type(error).__name__}
    )
