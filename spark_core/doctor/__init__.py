"""Look at one repository the way a run would, and say of each thing whether it is in order.

Nothing of the user's is written, deleted or read as a whole; the server does
no work for it. What lakegc writes of its own, under
`_lakefs/retention/gc/probe/`, is deleted again, but for one small object off
whose date the store's clock is read.

probe       what was found, and how a refusal becomes it
patient     the repository, and what is known of it so far
server, repository, store, machine    the questions
"""

from __future__ import annotations

from collections.abc import Iterator

from spark_core.doctor.machine import MACHINE_QUESTIONS, SPARK_QUESTIONS
from spark_core.doctor.patient import Patient
from spark_core.doctor.probe import Found, Probe, Question, look, told
from spark_core.doctor.repository import REPOSITORY_QUESTIONS
from spark_core.doctor.server import SERVER_QUESTIONS
from spark_core.doctor.store import STORE_QUESTIONS

__all__ = ["Found", "Patient", "Probe", "Question", "examine", "told"]

QUESTIONS = (*SERVER_QUESTIONS, *REPOSITORY_QUESTIONS, *STORE_QUESTIONS, *MACHINE_QUESTIONS)


def examine(patient: Patient) -> Iterator[Probe]:
    """Ask every question that can be asked, in order; one that fails keeps no other from its turn.

    Args:
        patient: The repository.

    Yields:
        A probe for each question.
    """
    for question in (*QUESTIONS, *(SPARK_QUESTIONS if patient.wants_spark else ())):
        yield look(question, patient)
