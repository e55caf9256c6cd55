"""Turn what Dagster raises of its home into errors of the one tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_core.errors import LakegcError, SettingsError
from spark_core.foreign_errors import one_line
from spark_core.json_and_toml import NamedTwiceError


@contextmanager
def in_dagsters_home(home: Path) -> Iterator[None]:
    """Say of an error of Dagster's home, its settings or its database, which one it is of.

    Args:
        home: The home.

    Raises:
        SettingsError: If `dagster.yaml` cannot be used.
        OSError: With the home's name, where it had none.
        LakegcError: If the database cannot be read or written.
    """
    import dagster as dg
    import yaml
    from dagster_shared.check import CheckError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        # What the database itself said of a statement.
        said = one_line(str(getattr(error, "orig", None) or error))
        raise LakegcError(
            f"Dagster's database in {home} cannot be used ({said})",
            "Look at the room and the rights of its disk. Move a damaged file away: Dagster then "
            "begins a new history, and what runs stored in the repositories stays.",
        ) from error
    except (
        yaml.YAMLError,
        UnicodeDecodeError,
        NamedTwiceError,
        CheckError,
        dg.DagsterError,
    ) as error:
        raise SettingsError(
            f"{home / 'dagster.yaml'} cannot be used ({one_line(str(error))})",
            "Correct it, or move it away: the next run writes one anew.",
        ) from error
    except OSError as error:
        # That of a write says nothing of where.
        error.filename = error.filename or str(home)
        raise
