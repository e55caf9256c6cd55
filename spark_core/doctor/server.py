"""Ask about the server: is it lakeFS, does it accept the keys, and is its clock right."""

from __future__ import annotations

import re

from spark_core.clocks import MAX_CLOCK_SKEW, narrower, require_near
from spark_core.doctor.examination import Examination
from spark_core.doctor.questions import ProbeAnswer, Question
from spark_core.errors import PermissionDeniedError
from spark_core.lakefs import LakeFSServer
from spark_core.lakefs.permissions import Permissions
from spark_core.run.preconditions import SERVER_CLOCK

# What older servers lack, and the version that added it, by the changelog. lakegc has a fallback
# for each.
_SINCE = (
    ((1, 75), "says 500 instead of 404 for what it does not have"),
    ((1, 72), "has no asynchronous prepare_commits: the call lasts as long as the work"),
    ((1, 3), "has no asynchronous refs dump: the call lasts as long as the work"),
)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def _keys(examination: Examination) -> ProbeAnswer:
    options = examination.server_options()
    examination.server = LakeFSServer(options, clock=examination.clock)
    examination.permissions = Permissions(options, clock=examination.clock)
    which = "" if options.token is None else f": {options.token.called}"
    return ProbeAnswer(
        f"found{which}, for {options.endpoint}", figures={"endpoint": options.endpoint}
    )


def _answers(examination: Examination) -> ProbeAnswer:
    examination.permissions.require_lakefs()
    examination.lakefs = True
    return ProbeAnswer("a lakeFS server answers")


def _takes_keys(examination: Examination) -> ProbeAnswer:
    server, _ = examination.server, examination.lakefs
    try:
        version = server.version()
    except PermissionDeniedError as refusal:
        tokens = examination.server_options().token
        next_step = (
            "This call needs no permission, so it is the keys: set access_key_id and "
            "secret_access_key of a user that the server knows (they may have been deleted or "
            "replaced there)."
            if tokens is None
            else f"This call needs no permission, so it is {tokens.called}: it has to be one of "
            "this server, of a user that it knows, and may have ended."
        )
        return ProbeAnswer(refusal.found, False, next_step, {"error": type(refusal).__name__})
    examination.user = True
    return ProbeAnswer("taken", figures={"version": version})


def _version(examination: Examination) -> ProbeAnswer:
    server, _ = examination.server, examination.user
    version = server.version()
    figures = {"version": version}
    match = _VERSION.match(version)
    if match is None:
        return ProbeAnswer(
            f"{version}, which names no release; the calls are asked for one by one below",
            figures=figures,
        )
    lacking = [words for since, words in _SINCE if (int(match[1]), int(match[2])) < since]
    if lacking:
        return ProbeAnswer(
            f"{version}: it {'; it '.join(lacking)}. lakegc does without", figures=figures
        )
    return ProbeAnswer(version, figures=figures)


def _clock(examination: Examination) -> ProbeAnswer:
    server, permissions, _ = examination.server, examination.permissions, examination.lakefs
    reading = narrower(server.clock_reading, permissions.clock_reading)
    if reading is None:
        return ProbeAnswer("its answers carry no date, or come from a cache", None)
    require_near(reading, SERVER_CLOCK)
    return ProbeAnswer(
        f"its clock {reading}",
        figures={
            "skew_seconds": reading.skew.total_seconds(),
            "limit": MAX_CLOCK_SKEW.total_seconds(),
        },
    )


SERVER_QUESTIONS = (
    Question("server", "keys", _keys),
    Question("server", "answers", _answers),
    Question("server", "takes the keys", _takes_keys),
    Question("server", "version", _version),
    Question("server", "clock", _clock),
)
