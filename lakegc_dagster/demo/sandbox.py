"""The demo's sandbox on disk: made fresh, locked while in use, started again by later commands."""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spark_core.cli.common import DEMO_MARKER
from spark_core.errors import LakegcError, SettingsError
from spark_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from lakegc_dagster.sandbox import Sandbox

DIRECTORY = Path(".sandbox")
REPOSITORY_ID = "lakegc-demo"

# A port of its own keeps the address the same from one demo to the next.
_PORT = 8742

# A real server still answers for a deleted repository for a while, and a sweep waits that long. The
# sandbox does not, so its time is 0.
_SETTINGS = """\
# Written by `lakegc demo`; the next demo overwrites it.
# Commands that use this file start the sandbox by themselves.
throwaway_repositories = ["{repository}"]

[server]
endpoint = "{endpoint}"
credentials_file = "credentials.json"

[storage]
local_path = "blockstore"

# lakegc's own process would do so little by itself; the demo shows how much is done.
[spark]
always = true

[dagster]
home = "dagster_home"

[repositories.{repository}]
mode = "sweep"
quarantine = false
min_age_hours = 24
repository_cache_seconds = 0
{more}"""


@contextmanager
def fresh(directory: Path, *, more: str = "") -> Iterator[Sandbox]:
    """Serve a new, empty sandbox; an earlier sandbox of the demo is deleted.

    Args:
        directory: Where it keeps everything, its settings file included.
        more: Further lines of the repository's settings.

    Raises:
        SettingsError: If the directory holds something else, or is in use.
    """
    if directory.exists():
        if not is_ours(directory):
            raise SettingsError(
                f"{directory.resolve()} exists and was not made by `lakegc demo`; nothing in it "
                "was touched. Move it away, or name another place with --directory."
            )
        with _lock_directory(directory) as held:
            if not held:
                raise SettingsError(
                    f"the sandbox in {directory.resolve()} is in use by another lakegc (a demo or "
                    "the UI); nothing in it was touched. End that one first, or name another "
                    "place with --directory."
                )
            shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / DEMO_MARKER).write_text(
        "`lakegc demo` may remove this directory and everything in it.\n"
    )
    with _lock_directory(directory), _serving(directory, _PORT) as sandbox:
        settings = _SETTINGS.format(
            repository=REPOSITORY_ID,
            endpoint=sandbox.endpoint,
            more=more,
        )
        settings_file(directory).write_text(settings)
        yield sandbox


@contextmanager
def awake(settings: Settings) -> Iterator[Settings]:
    """Serve the demo's sandbox during the block if the settings point to it; else do nothing.

    If another program has taken its port meanwhile, the sandbox moves to a free one and its
    settings file says so.

    Args:
        settings: The settings of a command.

    Yields:
        The settings, with the new endpoint if the port changed.
    """
    file = settings.file
    if file is None or not is_ours(file.parent) or settings.server.endpoint not in file.read_text():
        yield settings
        return
    with _lock_directory(file.parent) as held:
        if not held:
            # Another command serves it.
            yield settings
            return
        with _serving(file.parent, urlsplit(settings.server.endpoint).port or _PORT) as sandbox:
            if sandbox.endpoint == settings.server.endpoint:
                yield settings
                return
            file.write_text(file.read_text().replace(settings.server.endpoint, sandbox.endpoint))
            yield load_settings(file)


def is_ours(directory: Path) -> bool:
    """Say whether a directory was made by the demo."""
    return not directory.is_symlink() and (directory / DEMO_MARKER).is_file()


def settings_file(directory: Path) -> Path:
    """Return where the settings of a demo's sandbox lie."""
    return directory / "lakegc.toml"


@contextmanager
def _lock_directory(directory: Path) -> Iterator[bool]:
    """Lock the directory for this process; False when another process holds it."""
    with (directory / DEMO_MARKER).open() as marker:
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def _serving(directory: Path, port: int) -> Iterator[Sandbox]:
    """Serve on a port, or on any other if that one is taken.

    Raises:
        LakegcError: If the disk of the sandbox takes nothing.
    """
    from lakegc_dagster.sandbox import Sandbox

    sandbox = Sandbox(directory, port=port)
    try:
        try:
            sandbox.start()
        except OSError:
            sandbox = Sandbox(directory)
            sandbox.start()
        yield sandbox
    except sqlite3.Error as error:
        raise LakegcError(
            f"the sandbox in {directory.resolve()} cannot write there ({error})",
            "Look at the room and the rights of its disk, or make a sandbox in another place "
            "(`lakegc demo --directory DIRECTORY`).",
        ) from error
    finally:
        sandbox.stop()
