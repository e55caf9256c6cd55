"""Read a policy document from JSON or YAML.

Both forms of the old lakeFS document are read: `rule_parsing` says how they differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spark_core.references.policies import lifecycle, places
from spark_core.references.policies.document import Policy
from spark_core.references.policies.faults import Fault, Faults, PolicyError
from spark_core.references.policies.places import UnreadableError, Value, shown
from spark_core.references.policies.rule_parsing import BRANCH, read_rule
from spark_core.text_files import text_of

MOST_RULES = 1_000
MOST_BYTES = 1_000_000


def parse(data: bytes, *, name: str) -> Policy:
    """Read a document, JSON or YAML, in either form.

    Args:
        data: The bytes of the file.
        name: Name of the file, for the message.

    Raises:
        PolicyError: With every fault and its place in the file.
        SettingsError: If it is no text in UTF-8.
    """
    if len(data) > MOST_BYTES:
        problem = f"it has {len(data):,} bytes, at most {MOST_BYTES:,} are read"
        raise PolicyError.of(name, [Fault(None, "", problem)])
    try:
        root = places.read(text_of(data, name))
    except UnreadableError as unreadable:
        raise PolicyError.of(name, [Fault(unreadable.place, "", unreadable.problem)]) from None
    faults = Faults()
    policy = _policy(root, faults)
    if policy is None or faults.found:
        ordered = sorted(
            faults.found,
            key=lambda fault: (fault.place.line, fault.place.column) if fault.place else (0, 0),
        )
        raise PolicyError.of(name, ordered)
    stored = len(_stored(policy.content()))
    if stored > MOST_BYTES:
        problem = f"it has {stored:,} bytes as it is stored, at most {MOST_BYTES:,} are read"
        raise PolicyError.of(name, [Fault(None, "", problem)])
    return policy


def _stored(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()


def of_content(content: Mapping[str, Any], *, name: str) -> Policy:
    """Read a document back from the values of `Policy.content`.

    Raises:
        PolicyError: If it is none.
    """
    return parse(_stored(content), name=name)


def _policy(root: Value, faults: Faults) -> Policy | None:
    found = faults.keys(root, "", ("rules", "branch_order", lifecycle.SECTION))
    if found is None:
        return None
    section = None
    if lifecycle.SECTION in found:
        section = lifecycle.read_section(found[lifecycle.SECTION], faults)
    order = _branch_order(found["branch_order"], faults) if "branch_order" in found else ()
    if "rules" not in found and lifecycle.SECTION in found:
        return Policy((), order, section)
    if "rules" not in found:
        faults.add(root, "rules", "missing")
        return None
    listed = found["rules"]
    if not isinstance(listed.content, list):
        faults.add(listed, "rules", f"{shown(listed)}, wanted a list of rules")
        return None
    if not 1 <= len(listed.content) <= MOST_RULES:
        faults.add(
            listed,
            "rules",
            f"{len(listed.content):,} rules, wanted 1 to {MOST_RULES:,} (`lakegc retention "
            "delete` ends a policy)",
        )
    rules = [read_rule(value, f"rules[{at}]", faults) for at, value in enumerate(listed.content)]
    return Policy(tuple(rule for rule in rules if rule is not None), order, section)


def _branch_order(value: Value, faults: Faults) -> tuple[str, ...]:
    if not isinstance(value.content, list):
        faults.add(value, "branch_order", f"{shown(value)}, wanted a list of branches")
        return ()
    names: list[str] = []
    for at, each in enumerate(value.content):
        key = f"branch_order[{at}]"
        if not isinstance(each.content, str) or not BRANCH.fullmatch(each.content):
            faults.add(each, key, f"{shown(each)}, wanted the name of a branch")
        elif each.content in names:
            faults.add(each, key, f"{each.content} is named twice")
        else:
            names.append(each.content)
    return tuple(names)
