"""Read YAML that others wrote: nested no deeper than anybody writes, and with each name once.

PyYAML looks at every open bracket again for each word, so that 16,000 of them take half a minute.
Here reading ends at the first that is too deep.
"""

from __future__ import annotations

from typing import Any

import yaml
from yaml.composer import ComposerError

from spark_core.json_and_toml import DEEPEST, once_each


class _Bounded:
    """What both loaders have beside what they have from PyYAML."""

    def compose_node(self: Any, parent: Any, index: Any) -> Any:
        if len(self.marks) > DEEPEST:  # of each list and mapping that is still open, the beginning
            problem = f"values are nested deeper than {DEEPEST}"
            raise ComposerError(None, None, problem, self.marks[-1])
        return super().compose_node(parent, index)  # type: ignore[misc]

    def construct_mapping(self, node: Any, **how: Any) -> Any:
        once_each([(key.value, None) for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
        return super().construct_mapping(node, **how)  # type: ignore[misc]


class Values(_Bounded, yaml.SafeLoader):  # type: ignore[misc]
    """Makes texts, numbers, switches, dates; for who reads nodes by himself, too."""


class _Words(_Bounded, yaml.BaseLoader):  # type: ignore[misc]
    """Makes texts alone: the other takes the word `on` for true."""


def read_yaml(text: str, *, as_words: bool = False) -> Any:
    """Read a document of YAML.

    Args:
        text: The text.
        as_words: Leave numbers, switches and dates as they are written.

    Raises:
        YAMLError: If it is no YAML, or is nested deeper than `DEEPEST`.
        ValueError: If a date is none; as `NamedTwiceError` if a name is twice in a mapping.
    """
    return yaml.load(text, Loader=_Words if as_words else Values)  # noqa: S506 - both are safe
