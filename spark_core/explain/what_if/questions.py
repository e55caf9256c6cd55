"""The rules that are asked about, and which commits each of them retains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from spark_core import retention
from spark_core.model import RetentionRules
from spark_core.plain_text import counted
from spark_core.references.commits import ReadCommits
from spark_core.run import Run

# Days from now for which the rules of now are asked.
AHEAD = (7, 30)


@dataclass(frozen=True)
class Question:
    """Rules that retain less from one to the next, and what each of them retains."""

    names: Sequence[str]
    retained: Sequence[frozenset[str]]

    def level(self, commit_id: str) -> int:
        """Return under how many of the rules a commit is retained."""
        return sum(commit_id in retained for retained in self.retained)


def questions_of(
    run: Run, found: ReadCommits, days: Sequence[int], rules: RetentionRules | None
) -> list[Question]:
    """Return what is asked: days that every branch keeps, the rules of now, rules of a file.

    Args:
        run: The run.
        found: The refs, the rules and the holds of now.
        days: Days that every branch would keep, each for itself.
        rules: Other rules; None for none.
    """
    refs, now = found.refs, found.rules
    held = found.holds.commits(refs)

    def retained(asked: RetentionRules | None, ahead: int = 0) -> frozenset[str]:
        kept = retention.retained_commits(
            refs,
            asked,
            run.now() + timedelta(days=ahead),
            clock_margin=run.options.clock_margin,
            tags_protect=run.options.tags_protect,
            keep_last=run.options.keep_last,
        )
        return frozenset(one.commit_id for one in retention.with_holds(kept, held))

    longest_first = sorted(set(days), reverse=True)
    questions = [
        Question(
            [f"every branch keeps {counted(count, 'day')}" for count in longest_first],
            [retained(RetentionRules(count)) for count in longest_first],
        ),
        Question(
            [
                "the rules of now",
                *(f"the rules of now, in {counted(count, 'day')}" for count in AHEAD),
            ],
            [retained(now), *(retained(now, count) for count in AHEAD)],
        ),
    ]
    if rules is not None:
        questions.append(Question(["the rules asked about"], [retained(rules)]))
    return questions
