"""What the system, YAML, SQLite and Spark raise leaves a step as a sentence with a next step."""

import errno
import os
import sqlite3

import pytest
import yaml
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PythonException

from spark_core.errors import LakegcError, SettingsError
from spark_core.foreign_errors import in_a_sentence, reason
from spark_core.phases import phase

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

OF_A_TASK = """An error occurred while calling o241.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 \
times, most recent failure: Lost task 0.0 in stage 3.0 (TID 4) (vm executor driver): \
java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\tat org.apache.spark.executor.Executor$TaskRunner.run(Executor.scala:906)
\tSuppressed: java.io.IOException: No space left on device
\t\tat java.base/java.io.FileOutputStream.write(FileOutputStream.java:349)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2909)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)"""

OF_A_USER_WITHOUT_A_NAME = """WARNING: Using incubator modules: jdk.incubator.vector
26/11/29 09:06:31 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Exception in thread "main" java.lang.IllegalArgumentException: basedir must be absolute: ?/.ivy2
\tat org.apache.ivy.util.Checks.checkAbsolute(Checks.java:48)
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)"""

OF_A_HOST_WITHOUT_ADDRESS = """Exception in thread "main" java.lang.ExceptionInInitializerError
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
Caused by: java.net.UnknownHostException: vm: vm: Name or service not known
\tat java.base/java.net.InetAddress.getLocalHost(InetAddress.java:1671)
\t... 10 more
Caused by: java.net.UnknownHostException: vm: Name or service not known
\tat java.base/java.net.Inet6AddressImpl.lookupAllHostAddr(Native Method)
\t... 17 more"""

OF_A_WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "spark_core/spark/tasks.py", line 181, in _map_tasks
    yield _receipt_batch(work(number, tasks[number]))
OSError: [Errno 28] No space left on device
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OF_A_USER_WITHOUT_A_NAME, "IllegalArgumentException: basedir must be absolute: ?/.ivy2"),
        (
            OF_A_HOST_WITHOUT_ADDRESS,
            "because of java.net.UnknownHostException: vm: Name or service not known",
        ),
        (OF_A_WORKER, "OSError: [Errno 28] No space left on device"),
        ("Unrecognized VM option 'Foo'\nError: Could not create the VM", "Unrecognized VM option"),
    ],
)
def test_java_is_told_by_its_first_error_and_the_cause_of_it(text, told):
    found = reason(text)
    assert told in found
    assert "\t" not in found
    assert "org.apache.spark.deploy" not in found


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (
            OSError(errno.EROFS, "Read-only file system", "/mnt/place"),
            LakegcError,
            "/mnt/place cannot be used (Read-only file system). Name a place on a file system ",
        ),
        (FULL, LakegcError, "(No space left on device). Make room there (temporary files are w"),
        (
            PythonException(OF_A_TASK),
            LakegcError,
            "Make room on that machine, where Spark keeps rows (SPARK_LOCAL_DIRS, else",
        ),
        (
            Py4JNetworkError("Answer from Java side is empty"),
            LakegcError,
            "Spark failed (Answer from Java side is empty). Look at Spark's own lines",
        ),
        (
            sqlite3.OperationalError("database or disk is full"),
            LakegcError,
            "a database on this machine cannot be used (database or disk is full). Look at the",
        ),
        (yaml.YAMLError("no colon"), SettingsError, "a file is not YAML (no colon). Correct it."),
    ],
)
def test_what_leaves_a_step_is_an_error_of_lakegc_with_the_state_of_the_world(error, kind, told):
    with pytest.raises(kind) as left, phase("Nothing was deleted."):
        raise error
    assert type(left.value) is kind
    assert told in str(left.value)
    assert str(left.value).endswith("Nothing was deleted.")
    assert left.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyError("a mistake"), BrokenPipeError(32, "Broken pipe")])
def test_a_mistake_of_lakegc_and_a_reader_who_left_stay_what_they_are(error):
    assert in_a_sentence(error) is None
    with pytest.raises(type(error)) as left, phase("Nothing was deleted."):
        raise error
    assert left.value is error
