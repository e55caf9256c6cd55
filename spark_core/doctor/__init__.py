"""Examine one repository as a run would see it, and say of each thing whether it is in order.

The examination writes, deletes and fully reads no object of the user but small files of an
inventory, and the server does no heavy work for it. It writes probe objects under
`_lakefs/retention/gc/probe/` and deletes them again, except for one small object whose date shows
the store's clock.

- `questions`: what a question found, and how a refusal becomes a finding
- `examination`: the repository, and what is known of it so far
- `server`, `repository`, `store`, `inventory`, `machine`: the questions
- `namespace`: storage by itself, such as that of a deleted repository
"""

from __future__ import annotations

from collections.abc import Iterator

from spark_core.doctor.examination import Examination
from spark_core.doctor.inventory import INVENTORY_QUESTIONS
from spark_core.doctor.machine import MACHINE_QUESTIONS, SPARK_QUESTIONS
from spark_core.doctor.namespace import ExaminedNamespace as ExaminedNamespace
from spark_core.doctor.namespace import examine_namespace as examine_namespace
from spark_core.doctor.questions import Finding, ask
from spark_core.doctor.questions import ProbeAnswer as ProbeAnswer
from spark_core.doctor.questions import Question as Question
from spark_core.doctor.questions import found_by as found_by
from spark_core.doctor.repository import REPOSITORY_QUESTIONS
from spark_core.doctor.server import SERVER_QUESTIONS
from spark_core.doctor.store import STORE_QUESTIONS

__all__ = ["Examination", "Finding", "examine"]

QUESTIONS = (*SERVER_QUESTIONS, *REPOSITORY_QUESTIONS, *STORE_QUESTIONS, *MACHINE_QUESTIONS)


def examine(examination: Examination) -> Iterator[Finding]:
    """Ask every question in order; if one fails, the others are still asked.

    Args:
        examination: The repository.

    Yields:
        A finding for each question.

    Examples:
        >>> examination = Examination("lake", lambda: server_options, storage, options)
        >>> [found.name for found in examine(examination) if found.passed is False]
        []
    """
    for question in (
        *QUESTIONS,
        *(INVENTORY_QUESTIONS if examination.options.inventory else ()),
        *(SPARK_QUESTIONS if examination.wants_spark else ()),
    ):
        yield ask(question, examination)
