"""Ask about this machine and about the Spark that it reaches."""

from __future__ import annotations

from spark_core.doctor.examination import Examination
from spark_core.doctor.questions import ProbeAnswer, Question
from spark_core.spark.connect import chosen_remote
from spark_core.spark.java import check_java
from spark_core.spark.python_of_executors import try_executors
from spark_core.spark.session import master_of


def _java(_examination: Examination) -> ProbeAnswer:
    """Check Java."""
    if chosen_remote() is not None:
        return ProbeAnswer("none is needed: Spark is a server elsewhere")
    return ProbeAnswer(check_java())


def _spark(examination: Examination) -> ProbeAnswer:
    """Let executors run this package's Python on a few rows."""
    session = try_executors(examination.spark)
    master = master_of(session)
    return ProbeAnswer(
        f"{session.version} on {master}; its executors run lakegc", figures={"master": master}
    )


MACHINE_QUESTIONS = (Question("machine", "Java", _java),)
SPARK_QUESTIONS = (Question("machine", "Spark", _spark),)
