"""Ask about this machine and about the Spark that it reaches."""

from __future__ import annotations

from spark_core.doctor.examination import Examination
from spark_core.doctor.questions import ProbeAnswer, Question
from spark_core.kept_code import objection
from spark_core.spark.class_archive import class_archive
from spark_core.spark.connect import chosen_remote
from spark_core.spark.java import check_java
from spark_core.spark.python_of_executors import try_executors
from spark_core.spark.session import master_of


def _java(_examination: Examination) -> ProbeAnswer:
    """Check Java, and whether it has an archive of Spark's classes, which makes a start faster."""
    if chosen_remote() is not None:
        return ProbeAnswer("none is needed: Spark is a server elsewhere")
    version, archive = check_java(), class_archive()
    if archive is None:
        return ProbeAnswer(f"{version}; there is no place for an archive of Spark's classes")
    path = archive.path
    why = "there is none yet" if path is None else objection(path)
    if why:
        return ProbeAnswer(
            f"{version}; no archive of Spark's classes is used ({why}), with which Spark starts in "
            "half the time: `lakegc warm-up` makes one"
        )
    return ProbeAnswer(f"{version}, with an archive of Spark's classes")


def _spark(examination: Examination) -> ProbeAnswer:
    """Let executors run this package's Python on a few rows."""
    session = try_executors(examination.spark)
    master = master_of(session)
    return ProbeAnswer(
        f"{session.version} on {master}; its executors run lakegc", figures={"master": master}
    )


MACHINE_QUESTIONS = (Question("machine", "Java", _java),)
SPARK_QUESTIONS = (Question("machine", "Spark", _spark),)
