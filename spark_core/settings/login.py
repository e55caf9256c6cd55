"""How to log in to the server: the one rule about the environment and the `[server]` table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_core.errors import SettingsError
from spark_core.settings.server_and_storage import ServerSettings

KEY_VARIABLE = "LAKEGC_ACCESS_KEY_ID"
SECRET_VARIABLE = "LAKEGC_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable
KEY_PAIR = (KEY_VARIABLE, SECRET_VARIABLE)
# How long a log-in as an AWS identity is to last; it is renewed before it ends.
_AWS_LOGIN = timedelta(hours=1)

if TYPE_CHECKING:
    from spark_core.lakefs.tokens import TokenSource


def login(
    server: ServerSettings, env: Mapping[str, str], path_of: Callable[[str], Path]
) -> dict[str, Any]:
    """Return how to log in: the key pair of the environment, else the way that `[server]` names.

    Args:
        server: The table; it names one way at most.
        env: Environment.
        path_of: Resolves a path of the settings.

    Returns:
        Values by the names of `ServerOptions`.

    Raises:
        SettingsError: If there is no way, or what it names is not there.
    """
    from spark_core.lakefs.credentials_file import read_credentials_file

    keys = _keys(env)
    if keys is not None:
        return keys
    if server.credentials_file is not None:
        return read_credentials_file(path_of(server.credentials_file), server.endpoint, env)
    token = _token(server, path_of)
    if token is None:
        raise SettingsError(
            f"no keys for {server.endpoint}: {' and '.join(KEY_PAIR)} are not set, and "
            "[server] names no credentials_file and no other way to log in",
            'Set both variables, or write credentials_file = "~/.lakectl.yaml".',
        )
    return {"token": token}


def _keys(env: Mapping[str, str]) -> dict[str, Any] | None:
    found = {
        "access_key_id": env.get(KEY_VARIABLE, ""),
        "secret_access_key": env.get(SECRET_VARIABLE, ""),
    }
    if any(found.values()) and not all(found.values()):
        there, absent = KEY_PAIR
        if not found["access_key_id"]:
            there, absent = absent, there
        raise SettingsError(f"{there} is set and {absent} is not", "Set both, or neither.")
    return found if all(found.values()) else None


def _token(server: ServerSettings, path_of: Callable[[str], Path]) -> TokenSource | None:
    from spark_core.lakefs.aws_role import TokenOfAwsRole
    from spark_core.lakefs.tokens import TokenInFile, TokenOfCommand

    if server.token_file is not None:
        return TokenInFile(str(path_of(server.token_file)))
    if server.token_command:
        return TokenOfCommand(tuple(server.token_command))
    if not server.aws_iam:
        return None
    life = _AWS_LOGIN
    if server.aws_iam_headers:
        return TokenOfAwsRole(tuple(server.aws_iam_headers.items()), life)
    return TokenOfAwsRole.at(server.endpoint, life=life)
