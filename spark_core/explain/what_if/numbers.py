"""The numbers of a commit, of which the largest counts for what several commits have.

They are under how many of the rules asked about it is retained, for each question; the branch that
keeps it longest; and who keeps it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from spark_core.explain.what_if.questions import Question
from spark_core.model import Refs

KEEPER = "keeper"
# As `keepers.sole_keepers_of` gives them.
FIRST, LAST = "first_keeper", "last_keeper"

# Level of an object that no commit has.
IN_NO_COMMIT = -1


def level(question: int) -> str:
    """Return the column that has under how many rules of a question a commit is retained."""
    return f"level_{question}"


def names(questions: int) -> list[str]:
    """Name the columns of the numbers."""
    return [*(level(at) for at in range(questions)), KEEPER, FIRST, LAST]


def with_numbers(questions: int, *fields: pa.Field) -> pa.Schema:
    """Return the schema of some columns and the numbers."""
    return pa.schema([*fields, *(pa.field(name, pa.int64()) for name in names(questions))])


def levels_asked(questions: Sequence[Question]) -> list[tuple[str, int]]:
    """Return for each answer the level that decides, and the highest one that is not retained.

    The last answer is what no commit ever had.
    """
    asked = [
        (level(at), number)
        for at, question in enumerate(questions)
        for number in range(len(question.names))
    ]
    return [*asked, (level(0), IN_NO_COMMIT)]


def of_metaranges(
    refs: Refs,
    questions: Sequence[Question],
    keepers: Mapping[str, int],
    sole_of: Mapping[str, Sequence[int]],
) -> dict[str, list[int]]:
    """Return for each metarange the highest numbers that any of its commits has.

    Args:
        refs: The commit graph.
        questions: What is asked.
        keepers: As `keepers.keepers_of` gives them.
        sole_of: As `keepers.sole_keepers_of` gives them.
    """
    metaranges: dict[str, list[int]] = {}
    for commit in refs.commits.values():
        if commit.metarange_id:
            own = [
                *(question.level(commit.id) for question in questions),
                keepers[commit.id],
                *sole_of[commit.id],
            ]
            before = metaranges.get(commit.metarange_id, [0] * len(own))
            metaranges[commit.metarange_id] = list(map(max, before, own))
    return metaranges


def of_held(questions: Sequence[Question], soles: int) -> dict[str, int]:
    """Return the numbers of an entry that a hold keeps by its path: every question retains it.

    Args:
        questions: What is asked.
        soles: Number of names that may keep an object alone; the last one stands for several.
    """
    levels = {level(at): len(question.names) for at, question in enumerate(questions)}
    return {**levels, FIRST: soles, LAST: 1}
