"""Questions about this machine."""

from __future__ import annotations

from spark_core.doctor.patient import Patient
from spark_core.doctor.probe import Found, Question
from spark_core.session import check_java


def _java(_patient: Patient) -> Found:
    return Found(check_java())


MACHINE_QUESTIONS = (Question("machine", "Java", _java),)
