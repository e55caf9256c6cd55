"""Messages to people: about a run, a repository, or a night.

A message has the refusal's own sentence and the way on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from spark_core.checks import CONFIRMABLE
from spark_core.errors import LakegcError, RefusedError
from spark_core.plain_text import bytes_text, visible
from spark_core.report.status import RepositoryStatus
from spark_core.settings.metrics_and_notify import Event, Notice

# What the settings choose from, and what is sent on request.
Kind: TypeAlias = Notice | Literal["test"]

_TITLES: Mapping[Kind, str] = {
    "failed": "failed",
    "refused": "was refused",
    "overdue": "is overdue",
    "waiting": "waits for confirmation",
}


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        event: What it is about.
        repository: Repository id; empty for a test and for a digest.
        run: Run key; empty if it is about no run.
        text: What happened, in sentences.
        next_step: What to do about it; empty if the text says that too.
        link: Where people see more of it; empty if nobody knows.
        subject: Its title, if that is not about one repository.
    """

    event: Kind
    repository: str
    run: str
    text: str
    next_step: str = ""
    link: str = ""
    subject: str = ""

    @property
    def title(self) -> str:
        """One line for a subject."""
        if self.subject:
            return f"lakegc: {self.subject}"
        of = f", run {self.run}" if self.run else ""
        return f"lakegc: {self.repository} {_TITLES[self.event]}{of}"

    @property
    def words(self) -> str:
        """Everything, in lines."""
        more = f"\nNext: {self.next_step}" if self.next_step else ""
        see = f"\nSee: {self.link}" if self.link else ""
        return f"{visible(self.title)}\n{visible(self.text, lines=True)}{more}{see}"

    @property
    def values(self) -> dict[str, str]:
        """What the webhook gets, by name."""
        names = ("event", "repository", "run", "title", "text", "next_step", "link", "words")
        return {name: getattr(self, name) for name in names}


def of_error(repository_id: str, run: str, error: LakegcError) -> Message:
    """Make the message about a run that an error ended."""
    event: Event = "refused" if isinstance(error, RefusedError) else "failed"
    return Message(event, repository_id, run, str(error))


def of_checks(repository_id: str, run: str, failing: Mapping[str, str]) -> Message:
    """Make the message about a mark that its checks refuse.

    Args:
        repository_id: Repository name.
        run: Run key.
        failing: Name of each failed check -> its sentence.
    """
    text = " ".join(f"{name}: {why.rstrip('.')}." for name, why in failing.items())
    way_on = (
        f"lakegc confirm {repository_id} {next(iter(failing))} --run {run}"
        if set(failing) <= CONFIRMABLE
        else f"lakegc report {repository_id} --run {run}"
    )
    return Message("refused", repository_id, run, f"{text} No sweep began.", way_on)


def of_status(status: RepositoryStatus) -> Iterator[Message]:
    """Make the messages about how a repository stands: overdue, and waiting for confirmation."""
    name = status.repository
    if status.overdue:
        text = f"{status.overdue[0].upper()}{status.overdue[1:]}."
        yield Message("overdue", name, "", text, f"lakegc runs {name}")
    for kind in status.kinds:
        if kind.waits_for and kind.refused:
            objects, size = kind.waiting
            why = " ".join(f"{check}: {words}" for check, words in kind.refused)
            run = kind.waiting_run or ""
            text = f"{objects:,} objects, {bytes_text(size)}, wait for {kind.waits_for}. {why}"
            yield Message("waiting", name, run, text, kind.next_step)
