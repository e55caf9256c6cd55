"""Questions to the server: is it there, is it lakeFS, does it take the keys, and do the clocks agree."""

from __future__ import annotations

import re

from spark_core.clocks import MAX_CLOCK_SKEW, narrower, require_near
from spark_core.doctor.patient import Patient
from spark_core.doctor.probe import Found, Question
from spark_core.errors import PermissionDeniedError
from spark_core.lakefs import LakeFSServer
from spark_core.lakefs.permissions import Permissions

# Since when the server has what lakegc falls back from, by its changelog.
_SINCE = (
    ((1, 75), "says 500 instead of 404 for what it does not have"),
    ((1, 72), "has no asynchronous prepare_commits: the call lasts as long as the work"),
    ((1, 3), "has no asynchronous refs dump: the call lasts as long as the work"),
)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def _keys(patient: Patient) -> Found:
    options = patient.server_options()
    patient.server = LakeFSServer(options, clock=patient.clock)
    patient.permissions = Permissions(options, clock=patient.clock)
    return Found(f"found, for {options.endpoint}", figures={"endpoint": options.endpoint})


def _answers(patient: Patient) -> Found:
    patient.permissions.require_lakefs()
    patient.lakefs = True
    return Found("a lakeFS server answers")


def _takes_keys(patient: Patient) -> Found:
    server, _ = patient.server, patient.lakefs
    try:
        version = server.version()
    except PermissionDeniedError as refusal:
        return Found(
            refusal.found,
            False,
            "This call needs no permission, so it is the keys: set access_key_id and secret_access_key of a user that the "
            "server knows (they may have been deleted or replaced there).",
            {"error": type(refusal).__name__},
        )
    patient.user = True
    return Found("taken", figures={"version": version})


def _version(patient: Patient) -> Found:
    server, _ = patient.server, patient.user
    version = server.version()
    figures = {"version": version}
    match = _VERSION.match(version)
    if match is None:
        return Found(f"{version}, which names no release; the calls are asked for one by one below", figures=figures)
    lacking = [words for since, words in _SINCE if (int(match[1]), int(match[2])) < since]
    if lacking:
        return Found(f"{version}: it {'; it '.join(lacking)}. lakegc does without", figures=figures)
    return Found(version, figures=figures)


def _clock(patient: Patient) -> Found:
    server, permissions, _ = patient.server, patient.permissions, patient.lakefs
    reading = narrower(server.clock_reading, permissions.clock_reading)
    if reading is None:
        return Found("its answers carry no date, or come from a cache", None)
    require_near(reading, "the lakeFS server")
    return Found(
        f"its clock {reading}",
        figures={"skew_seconds": reading.skew.total_seconds(), "limit": MAX_CLOCK_SKEW.total_seconds()},
    )


SERVER_QUESTIONS = (
    Question("server", "keys", _keys),
    Question("server", "answers", _answers),
    Question("server", "takes the keys", _takes_keys),
    Question("server", "version", _version),
    Question("server", "clock", _clock),
)
