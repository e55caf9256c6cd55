"""Read the file that says how a user logs in: lakectl's own, or one with a key pair.

lakectl's file is read as lakectl reads it: nested or dotted names in any case, and variables
`LAKECTL_...` over it. Every other YAML, JSON, TOML or INI file with one key pair will do.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_core.errors import SettingsError
from spark_core.json_and_toml import NamedTwiceError, once_each, read_toml
from spark_core.lakefs.aws_role import TokenOfAwsRole
from spark_core.text_files import read_text

KEYS = ("access_key_id", "secret_access_key")
_PROVIDER = "credentials.provider"
_AWS_IAM = "aws_iam"
_ENDPOINT = "server.endpoint_url"
# What lakectl knows of the log-in; the rest of its file is not for us.
_OF_LAKECTL = (
    *(f"credentials.{key}" for key in KEYS),
    f"{_PROVIDER}.type",
    f"{_PROVIDER}.{_AWS_IAM}.token_ttl_seconds",
    f"{_PROVIDER}.{_AWS_IAM}.url_presign_ttl_seconds",
    f"{_PROVIDER}.{_AWS_IAM}.token_request_headers",
)
# A duration of Go: "1h30m". A bare number is one of seconds, as the name of the setting says.
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_WAY_ON = "Mend it, or set the keys in the environment."
_LEAST_SECONDS, _MOST_SECONDS = 1, 7 * 86_400


def read_credentials_file(path: Path, endpoint: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Read how to log in.

    Args:
        path: The file.
        endpoint: URL of the server; a log-in by AWS identity is good for that server alone.
        env: Environment; only variables of lakectl count, and only where the file is lakectl's.

    Returns:
        Values by the names of `ServerOptions`: a key pair, or where tokens come from.

    Raises:
        SettingsError: If the file cannot be read or says something else than one way to log in.
    """
    found = _parsed(path)
    if any(name.startswith(("credentials.", "server.")) for name in found):
        found |= {
            name: env[variable] for name in _OF_LAKECTL if (variable := _variable(name)) in env
        }
    keys = {key: [name for name in found if name.rpartition(".")[2] == key] for key in KEYS}
    provider = found.get(f"{_PROVIDER}.type")
    # As for lakectl, keys win over the provider.
    if provider is not None and not any(found[name] for names in keys.values() for name in names):
        return {"token": _aws_iam(path, found, endpoint)}
    if any(len(names) != 1 for names in keys.values()):
        raise SettingsError(
            f"the credentials_file {path} has {len(keys[KEYS[0]])} access_key_id and "
            f"{len(keys[KEYS[1]])} secret_access_key, wanted one of each",
            "Keep the keys of one user in it.",
        )
    return {key: _text(path, name, found[name]) for key, (name,) in keys.items()}


def endpoint_in(path: Path, env: Mapping[str, str]) -> str | None:
    """Return the server that lakectl's own file names, or its variable over it; None for neither.

    Args:
        path: The file; it need not be there.
        env: Environment.

    Raises:
        SettingsError: If the file cannot be read.
    """
    found = _parsed(path) if path.exists() else {}
    endpoint = env.get(_variable(_ENDPOINT)) or found.get(_ENDPOINT)
    return endpoint if isinstance(endpoint, str) else None


def _parsed(path: Path) -> dict[str, Any]:
    """Read the file by the first of the formats that it is in, with dotted names."""
    import yaml

    from spark_core.yaml_documents import read_yaml

    text = read_text(path, f"the credentials_file {path}", _WAY_ON)
    readers: tuple[Callable[[str], Any], ...] = (read_yaml, read_toml, _ini)
    for read in readers:
        try:
            found = read(text)
            if isinstance(found, Mapping):
                return once_each([*_flat(found)])
        except NamedTwiceError as twice:
            raise _unreadable(path, str(twice)) from None
        except (yaml.YAMLError, ValueError, configparser.Error):
            continue
    raise _unreadable(path, "it is no YAML, JSON, TOML or INI, or has a name twice")


def _unreadable(path: Path, reason: str) -> SettingsError:
    return SettingsError(f"the credentials_file {path} cannot be read ({reason})", _WAY_ON)


def _ini(text: str) -> dict[str, Any]:
    # No section gives its values to the others, and lines before the first one have a section, too.
    parser = configparser.ConfigParser(interpolation=None, default_section="", delimiters=("=",))
    parser.read_string(f"[/]\n{text}")
    return {name: dict(parser[name]) for name in parser}


def _flat(table: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values; lakectl takes names in any case, and dotted ones as nested."""
    for name, value in table.items():
        dotted = f"{above}{name}".lower()
        if isinstance(value, Mapping) and not dotted.endswith("token_request_headers"):
            yield from _flat(value, f"{dotted}.")
        else:
            yield dotted, value


def _variable(name: str) -> str:
    return f"LAKECTL_{name.replace('.', '_').upper()}"


def _text(path: Path, name: str, value: Any) -> str:
    """Return a text; a number would have lost its leading zeros, and lakectl refuses it, too."""
    if not isinstance(value, str):
        raise SettingsError(
            f"{name} in the credentials_file {path} is no text", "Put it into quotation marks."
        )
    return value


def _aws_iam(path: Path, found: Mapping[str, Any], endpoint: str) -> TokenOfAwsRole:
    if found[f"{_PROVIDER}.type"] != _AWS_IAM:
        raise SettingsError(
            f"{_PROVIDER}.type in the credentials_file {path} is not {_AWS_IAM}, the only log-in "
            "by a provider that lakegc has",
            "Give a key pair or a token.",
        )
    own = {
        name.removeprefix(f"{_PROVIDER}.{_AWS_IAM}."): value
        for name, value in found.items()
        if value is not None
    }
    options: dict[str, Any] = {
        option: _seconds(path, name, own[name])
        for option, name in (
            ("life", "token_ttl_seconds"),
            ("question_life", "url_presign_ttl_seconds"),
        )
        if name in own
    }
    if "token_request_headers" in own:
        headers = _headers(path, own["token_request_headers"])
        return TokenOfAwsRole(headers, **options)
    return TokenOfAwsRole.at(endpoint, **options)


def _seconds(path: Path, name: str, value: Any) -> timedelta:
    text = str(value).strip()
    match = _DURATION.fullmatch(f"{text}s" if text.isdigit() else text)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    whole = hours * 3600 + minutes * 60 + seconds
    if not _LEAST_SECONDS <= whole <= _MOST_SECONDS:
        raise SettingsError(
            f"{name} in the credentials_file {path} is {text[:40]!r}, wanted a time like 3600 or "
            "1h, at most seven days"
        )
    return timedelta(seconds=whole)


def _headers(path: Path, value: Any) -> tuple[tuple[str, str], ...]:
    """Return the headers: a table, or lakectl's `name=value,name=value`."""
    if isinstance(value, str):
        parts = (part.partition("=") for part in value.split(",") if part)
        value = {name.strip(): words.strip() for name, _, words in parts}
    if not isinstance(value, Mapping):
        raise SettingsError(
            f"token_request_headers in the credentials_file {path} is no table of texts"
        )
    return tuple((str(name), _text(path, str(name), each)) for name, each in value.items())
