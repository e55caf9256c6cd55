"""Read whole columns of addresses as `readings` does; plain forms need no Python object per row."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses import readings
from spark_core.addresses.collectable import FOLDED_SEGMENT
from spark_core.addresses.namespace_uri import (
    KINDS,
    RENAMED_BY_AZURE,
    SECOND_READING,
    NamespaceUri,
)
from spark_core.addresses.readings import AddressType
from spark_core.errors import AddressError

# A `local://` URI with an empty, `.` or `..` segment. One further slash begins an absolute path.
_FOLDED_LOCAL = r"(?s)^local://(?:/?\.{1,2}(?:/|$)|//|/?$|/?[^/].*/\.{0,2}(?:/|$))"

# The server also drops slashes at both ends of an absolute path.
_SECOND_READING_AZURE = rf"{SECOND_READING}|{RENAMED_BY_AZURE}|/$|://[^/]*//"

# Relative addresses of which each server and store has one reading.
_PLAIN_SEGMENTS = r"^[0-9A-Za-z_-]+(?:/[0-9A-Za-z_-]+)*$"


def relative_column(
    namespace: NamespaceUri, addresses: pa.StringArray, types: pa.Int32Array
) -> pa.StringArray:
    """Apply `readings.relative` to a whole column; see `Namespace.relative_batch`."""
    if addresses.null_count or types.null_count or len(addresses) != len(types):
        raise AddressError(
            f"{namespace.root}: a column of {len(addresses)} addresses has nulls, or its types do "
            "not match it",
            "The table it comes from is not what lakeFS writes.",
        )
    if pc.all(pc.equal(types, int(AddressType.FULL))).as_py():
        plain = _all_plain(namespace, addresses)
        if plain is not None:
            return plain
    relative = _mask(pc.equal(types, int(AddressType.RELATIVE)))
    empty = pc.equal(pc.binary_length(addresses), 0)
    clean = ~(_mask(pc.or_(empty, pc.starts_with(addresses, "/"))) | _holding_nul(addresses))
    if namespace.kind == "local":
        clean &= ~_mask(pc.match_substring_regex(addresses, FOLDED_SEGMENT)) | ~relative
    if namespace.kind == "azure":
        clean &= ~_mask(pc.match_substring_regex(addresses, RENAMED_BY_AZURE))
    relative &= clean
    if relative.all():
        return addresses
    inside, outside, cut = _plain_uris(
        namespace, addresses, clean & _mask(pc.equal(types, int(AddressType.FULL)))
    )
    result = pc.if_else(pa.array(inside), cut, addresses)
    result = pc.if_else(pa.array(outside), pa.scalar(None, pa.string()), result)
    hard = np.flatnonzero(~(relative | inside | outside))
    if not len(hard):
        return result
    values, kinds = (
        addresses.take(pa.array(hard)).to_pylist(),
        types.take(pa.array(hard)).to_pylist(),
    )
    answers = [
        readings.relative(namespace, value, kind) for value, kind in zip(values, kinds, strict=True)
    ]
    mask = np.zeros(len(addresses), dtype=bool)
    mask[hard] = True
    return pc.replace_with_mask(result, pa.array(mask), pa.array(answers, pa.string()))


def _all_plain(namespace: NamespaceUri, addresses: pa.StringArray) -> pa.StringArray | None:
    """Cut FULL addresses after the root if all of them have one reading; None otherwise.

    Then each is the root as it stands, and segments of characters that no server or store
    reads in another way. A server shows addresses like that, millions of them.
    """
    forms = namespace.local_forms if namespace.kind == "local" else ()
    for begin in [f"local://{form}" for form in forms] or [namespace.root]:
        if pc.all(pc.starts_with(addresses, begin)).as_py():
            cut = pc.utf8_slice_codeunits(addresses, len(begin))
            if pc.all(pc.match_substring_regex(cut, _PLAIN_SEGMENTS)).as_py():
                return cut
    return None


def _plain_uris(
    namespace: NamespaceUri, addresses: pa.StringArray, candidates: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], pa.StringArray]:
    """Split the FULL addresses that have one reading into inside and outside.

    Returns:
        Which are inside, which are outside, and the addresses cut after the root.
    """
    nothing = np.zeros(len(addresses), dtype=bool)
    if not candidates.any():
        return nothing, nothing, addresses
    others = "|".join(scheme for scheme, kind in KINDS.items() if kind != namespace.kind)
    outside = candidates & _mask(pc.match_substring_regex(addresses, rf"^(?:{others})://"))
    if namespace.kind == "local":
        own = candidates & ~_mask(pc.match_substring_regex(addresses, _FOLDED_LOCAL))
        inside, cut = nothing, addresses
        for form in namespace.local_forms:
            here = own & ~inside & _mask(pc.starts_with(addresses, f"local://{form}"))
            if not here.any():
                continue
            inside = inside | here
            cut = pc.if_else(
                pa.array(here), pc.utf8_slice_codeunits(addresses, len(f"local://{form}")), cut
            )
        return inside, outside, cut
    second = _SECOND_READING_AZURE if namespace.kind == "azure" else SECOND_READING
    one_reading = candidates & ~_mask(pc.match_substring_regex(addresses, second))
    if namespace.kind != "azure":
        plain = _mask(
            pc.match_substring_regex(addresses, rf"^[a-z0-9]+://{re.escape(namespace.bucket)}/[^/]")
        )
        one_reading &= plain | ~_mask(
            pc.match_substring_regex(
                addresses, rf"(?i)^[a-z0-9]+://{re.escape(namespace.bucket)}(?:/|$)"
            )
        )
    own_store = (
        f"{namespace.scheme}://{namespace.bucket}/"
        if namespace.kind == "azure"
        else f"{namespace.scheme}://"
    )
    here = _mask(pc.starts_with(addresses, namespace.root))
    outside |= one_reading & ~here & _mask(pc.starts_with(addresses, own_store))
    inside = one_reading & here & _mask(pc.not_equal(addresses, namespace.root))
    return inside, outside, pc.utf8_slice_codeunits(addresses, len(namespace.root))


def _mask(values: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return mask


def _holding_nul(addresses: pa.StringArray) -> npt.NDArray[np.bool_]:
    data = addresses.buffers()[2]
    # One look at all bytes costs a hundredth of a search in each address.
    if data is None or np.frombuffer(data, np.uint8).all():
        return np.zeros(len(addresses), np.bool_)
    return _mask(pc.match_substring(addresses, "\0"))
