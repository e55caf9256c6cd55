"""Refuse keys with characters that no key has, which come along when one is pasted.

A chat window makes an en dash of a hyphen, and a web page adds spaces of no width. Nobody sees
either, the libraries that send the key fail on it, and their errors quote the whole key.
"""

from __future__ import annotations

import unicodedata

from spark_core.errors import SettingsError


def require_plain(key: str, called: str) -> None:
    """Refuse a key that is not printable ASCII; the message shows the one character, not the key.

    Args:
        key: The key or secret.
        called: What it is called, for the message.

    Raises:
        SettingsError: If it has another character.
    """
    for place, letter in enumerate(key, start=1):
        if not (letter.isascii() and letter.isprintable()):
            name = unicodedata.name(letter, "not printable")
            raise SettingsError(
                f"{called} has U+{ord(letter):04X} ({name}) as character {place}, and keys are "
                "plain ASCII",
                "Copy the key again from where it was made, or type that character.",
            )
