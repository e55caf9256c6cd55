"""What of the settings may be a secret: it is shown and told to nobody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "(hidden)"

_BEFORE_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET = re.compile(
    r"secret|password|passwd|passphrase|token|jwt|signature|authorization|connection_?string|bearer"
    r"|(access|account|api|private)_?key|key(?![a-z0-9_])|(?<![a-z0-9])(pwd|sas|sig)(?![a-z0-9])"
    r"|credential$|(?<!by)pass$"
)
# Such a name says where a secret is, or what kind of one.
_POINTER = re.compile(
    r"[._-](class|command|endpoint|env|file|location|path|provider|store|type)$|^client_key$"
)
# In the text of another setting: `name=value`, `"name": "value"`, a URL's password, and whatever
# stands behind the address of a Spark Connect server.
_PAIR = re.compile(
    r"""([\w.-]+)(=|(?P<quote>["'])\s*:\s*(?P=quote)|:\s+)((?:(?:Basic|Bearer)\s+)?["']?[^\s&;,"']+)"""
)
_OF_URL = re.compile(r"(sc://[^;\s]*;)\S+|(//[^/\s:@]*:)[^/\s@]+(?=@)")


def is_secret(name: str) -> bool:
    """Say whether a setting of this name holds a secret, and does not only say where one is.

    Examples:
        >>> is_secret("fs.azure.account.key.X"), is_secret("spark.executorEnv.AZURE_STORAGE_KEY")
        (True, True)
        >>> is_secret("token_file"), is_secret("spark.sql.mapKeyDedupPolicy")
        (False, False)
    """
    plain = _BEFORE_CAPITAL.sub("_", name).lower()
    return bool(_SECRET.search(plain)) and not _POINTER.search(plain)


def shown(name: str, value: Any) -> Any:
    """Return a setting's value with everything hidden that may be a secret.

    Args:
        name: Its name.
        value: A value of TOML or JSON.

    Examples:
        >>> shown("arguments", ["--conf", "spark.ssl.keyPassword=hush", "--name=x"])
        ['--conf', 'spark.ssl.keyPassword=(hidden)', '--name=x']
    """
    if isinstance(value, Mapping):
        return {key: shown(key, each) for key, each in value.items()}
    if isinstance(value, list):
        # What a command is given may be anything.
        plain = 1 if name == "token_command" else len(value)
        return [shown("", each) for each in value[:plain]] + [HIDDEN] * len(value[plain:])
    if not isinstance(value, str):
        return value
    if is_secret(name):
        return HIDDEN
    return _PAIR.sub(
        lambda pair: pair[1] + pair[2] + (HIDDEN if is_secret(pair[1]) else pair[4]),
        _OF_URL.sub(rf"\1\2{HIDDEN}", value),
    )


def without_secrets(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of settings without those that carry a secret, as only the environment may.

    Examples:
        >>> without_secrets({"spark": {"always": True, "config": {"fs.s3a.secret.key": "hush"}}})
        {'spark': {'always': True, 'config': {}}}
    """
    return {
        name: without_secrets(value) if isinstance(value, Mapping) else value
        for name, value in table.items()
        if isinstance(value, Mapping)
        # A list says in its words what it carries.
        or shown("" if isinstance(value, list) else name, value) == value
    }
