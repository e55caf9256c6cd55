"""Map the address in an entry to the listed object that it keeps.

It may be the object's own name, another name of the store for it, or its place in quarantine.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.collectable import OWN_NAME

_INSIDE = f"(?s)^.*/({OWN_NAME})$"
_ASIDE = rf"(?s)^.*({re.escape(lakegc_keys.QUARANTINE)}run_id=)"


def kept_addresses(addresses: pa.StringArray) -> pa.StringArray:
    """Return the relative address of the object that each address keeps.

    An address outside the namespace may be inside by another name of the store. It then keeps the
    object inside. An object in quarantine is known by its key there, whatever leads to it.

    Args:
        addresses: Addresses of entries, relative ones inside the namespace; no nulls.

    Returns:
        As many addresses. Those that lie elsewhere stay unchanged.
    """
    usual = pc.starts_with(addresses, "data/")
    if pc.all(usual, min_count=0).as_py():
        return addresses
    inside = pc.replace_substring_regex(addresses, _INSIDE, r"\1")
    aside = pc.replace_substring_regex(addresses, _ASIDE, r"\1")
    is_aside = pc.match_substring(addresses, lakegc_keys.QUARANTINE)
    return pc.if_else(usual, addresses, pc.if_else(is_aside, aside, inside))


def alive_hashes(addresses: pa.StringArray) -> pa.Int64Array:
    """Hash `kept_addresses`; no object whose address has one of these hashes may go."""
    return hashed(kept_addresses(addresses))
