"""Questions about this machine and the Spark that it reaches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_core.doctor.patient import Patient
from spark_core.doctor.probe import Found, Question
from spark_core.errors import SettingsError
from spark_core.session import check_java, surfacing_errors

_ROWS = 8


def _java(_patient: Patient) -> Found:
    return Found(check_java())


def _spark(patient: Patient) -> Found:
    """Let executors run Python of this package on a few rows."""
    try:
        session = patient.spark()
        with surfacing_errors():
            rows = session.range(_ROWS, numPartitions=2).mapInArrow(_echo, "id long").count()
    except (PySparkException, Py4JError, RuntimeError) as failure:
        first = str(failure).strip().partition("\n")[0][:300]
        raise SettingsError(
            f"Spark cannot be used ({type(failure).__name__}: {first})",
            "Look at [spark] in the settings, and at whether its executors have Python with this version of lakegc.",
        ) from failure
    if rows != _ROWS:
        raise SettingsError(f"Spark counted {rows} of {_ROWS} rows", "Look at the cluster's log.")
    master = session.sparkContext.master
    return Found(f"{session.version} on {master}; its executors run lakegc", figures={"master": master})


def _echo(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


MACHINE_QUESTIONS = (Question("machine", "Java", _java),)
SPARK_QUESTIONS = (Question("machine", "Spark", _spark),)
