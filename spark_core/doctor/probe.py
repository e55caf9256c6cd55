"""What a probe found, and how a refusal becomes one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from spark_core.errors import LakegcError

P = TypeVar("P")

# The first sentence of a message that came in one piece, from an executor for instance.
_SENTENCE = re.compile(r"""(?<=[\w)'"\]])\. (?=[A-Z`])""")


class UnknownError(Exception):
    """A question needs something that no earlier one has found out."""


@dataclass(frozen=True)
class Found:
    """What the answer to a question is.

    Attributes:
        text: What was found, for people.
        passed: Whether that is in order; None if it could not be told.
        next_step: What to do about it; empty when there is nothing to do.
        figures: The same for programs; JSON values only, no secret.
    """

    text: str
    passed: bool | None = True
    next_step: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Probe:
    """One thing that was looked at.

    Attributes:
        about: What it belongs to: settings, server, repository, store or machine.
        name: What was looked at.
        passed: Whether it is in order; None if it could not be told.
        found: What was found, for people.
        next_step: What to do; empty when there is nothing to do.
        figures: The same for programs.
    """

    about: str
    name: str
    passed: bool | None
    found: str
    next_step: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question(Generic[P]):
    """Something to look at.

    Attributes:
        about: What it belongs to.
        name: What is looked at.
        ask: Looks at it; what it raises on purpose is what was found.
    """

    about: str
    name: str
    ask: Callable[[P], Found]


def look(question: Question[P], patient: P) -> Probe:
    """Ask one question; a refusal of the engine is an answer, too, and so is that it cannot be asked yet."""
    try:
        found = question.ask(patient)
    except UnknownError as unknown:
        found = Found(f"not looked at: {unknown}", None)
    except LakegcError as error:
        found = told(error)
    except (OSError, RuntimeError, ValueError) as error:
        # What a client library raises of its own; its words may hold anything, so only its name is shown.
        found = Found(
            f"an error that lakegc does not know, {type(error).__module__}.{type(error).__qualname__}",
            False,
            f"`lakegc mark` shows more of it; please report it with what `{question.about}: {question.name}` was asked of.",
            {"error": type(error).__name__},
        )
    return Probe(question.about, question.name, found.passed, found.text, found.next_step, found.figures)


def told(error: LakegcError) -> Found:
    """Show what an error found, and its next step."""
    found, step = error.found, error.next_step
    if not step:
        found, step = (*_SENTENCE.split(found, maxsplit=1), "")[:2]
    return Found(found.strip(), False, step or "Mend that, and ask again.", {"error": type(error).__name__})
