"""Who acts, for the record: the account and the machine."""

from __future__ import annotations

import getpass
import os
import socket


def who() -> str:
    """Return account and machine; in a container the account may have no name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
