"""What of a machine keeps Spark from starting there, and what helps; looked at once it did not."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping
from pathlib import Path

# With one of them Spark does not ask for the address of the machine's name.
_OTHER_NAMES = {"SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"}


def obstacle(environment: Mapping[str, str], properties: Mapping[str, str]) -> str:
    """Say what of this machine keeps Spark from starting, and what helps; empty for nothing.

    Args:
        environment: Of this process; `SPARK_LOCAL_DIRS` of it comes before `spark.local.dir`.
        properties: Of the session.
    """
    folders = environment.get("SPARK_LOCAL_DIRS") or properties.get("spark.local.dir", "/tmp")  # noqa: S108 - Spark's
    if not any(_takes_files(Path(each.strip()).absolute()) for each in folders.split(",")):
        return (
            f"SPARK_LOCAL_DIRS or spark.local.dir is {folders}, and this user can write into no "
            "such folder: name one that takes files, or none, and Spark uses /tmp"
        )
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return (
            f"The user id {os.geteuid()} has no entry in /etc/passwd, where Java looks for name "
            "and home: give it one, or run as a user who has one"
        )
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        return (
            ""
            if environment.keys() & _OTHER_NAMES
            else (
                f"The name of this machine, {socket.gethostname()}, leads to no address: put it "
                "into /etc/hosts, or set SPARK_LOCAL_HOSTNAME=localhost"
            )
        )
    return ""


def _takes_files(folder: Path) -> bool:
    """Say whether this user can write into a folder, or make it."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
