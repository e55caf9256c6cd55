"""Ask about this machine and about the Spark that it reaches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_core.doctor.examination import Examination
from spark_core.doctor.questions import Found, Question
from spark_core.errors import SettingsError
from spark_core.spark.class_archive import class_archive, objection
from spark_core.spark.session import check_java, surfacing_errors

_ROWS = 8


def _java(_examination: Examination) -> Found:
    """Check Java, and whether it has an archive of Spark's classes, which makes a start faster."""
    version, archive = check_java(), class_archive()
    if archive is None:
        return Found(f"{version}; there is no place for an archive of Spark's classes")
    path = archive.path
    why = "there is none yet" if path is None else objection(path)
    if why:
        return Found(
            f"{version}; no archive of Spark's classes is used ({why}), with which Spark starts in "
            "half the time: `lakegc warm-up` makes one"
        )
    return Found(f"{version}, with an archive of Spark's classes")


def _spark(examination: Examination) -> Found:
    """Let executors run this package's Python on a few rows."""
    try:
        session = examination.spark()
        with surfacing_errors():
            rows = session.range(_ROWS, numPartitions=2).mapInArrow(_echo, "id long").count()
    except (PySparkException, Py4JError, RuntimeError) as failure:
        first = str(failure).strip().partition("\n")[0][:300]
        raise SettingsError(
            f"Spark cannot be used ({type(failure).__name__}: {first})",
            "Look at [spark] in the settings, and at whether its executors have Python with this "
            "version of lakegc.",
        ) from failure
    if rows != _ROWS:
        raise SettingsError(f"Spark counted {rows} of {_ROWS} rows", "Look at the cluster's log.")
    master = session.sparkContext.master
    return Found(
        f"{session.version} on {master}; its executors run lakegc", figures={"master": master}
    )


def _echo(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


MACHINE_QUESTIONS = (Question("machine", "Java", _java),)
SPARK_QUESTIONS = (Question("machine", "Spark", _spark),)
