"""The decision about objects, a pure function on arrays.

The mark calls it for all objects of a bucket of hashes, for the listed ones that no retained commit
reaches, and once more when branches have answered; the sweep with the references of now. Whatever
else says that an object may go or stays has asked it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_core.addresses import candidates as rule
from spark_core.fates.fate import Fate

FATES = tuple(Fate)
CODES = {fate: number for number, fate in enumerate(FATES)}
"""Number of each fate in arrays: its place in `FATES`."""

MAY_GO = [CODES[fate] for fate in Fate if fate.may_go]
"""Numbers of the fates that let an object go."""

# What name and age make of an object that nothing refers to.
_BY_STANDING = {
    rule.CANDIDATE: Fate.UNREFERENCED,
    rule.PROTECTED: Fate.UNSAFE_NAME,
    rule.YOUNG: Fate.YOUNG,
    rule.UPLOAD: Fate.UPLOADING,
    rule.STRANGER: Fate.STRANGER,
    rule.INHERITED: Fate.INHERITED,
}
OF_STANDING = np.array([CODES[_BY_STANDING[name]] for name in rule.STANDINGS], np.int8)
"""Number of the fate by the place of a standing in `candidates.STANDINGS`."""


@dataclass(frozen=True)
class Known:
    """What is known of some objects: an array of bool for each, or one value for all of them.

    Attributes:
        alone: Numbers of the fates by name and age alone; that of `UNREFERENCED` where nothing
            speaks against it.
        is_committed: Whether a retained commit reaches it.
        is_staged: Whether a branch has it staged.
        is_held: Whether a hold keeps it by its address.
        is_due: Whether the retention policy takes it, having judged every name of it.
        is_left: Whether the run leaves it to another one.
        is_unnamed: Whether the mark that the run must keep to does not name it.
        is_read: Whether a branch answers from it.
        may_hide: Whether a branch may read it, and could not be asked.
    """

    alone: Any
    is_committed: Any = False
    is_staged: Any = False
    is_held: Any = False
    is_due: Any = False
    is_left: Any = False
    is_unnamed: Any = False
    is_read: Any = False
    may_hide: Any = False


def fate(known: Known) -> Any:
    """Decide about objects.

    Args:
        known: What is known of them.

    Returns:
        int8 array: the number of each one's fate, the first that holds in the order of `Fate`.

    Example:
        >>> import numpy as np
        >>> old, young = CODES[Fate.UNREFERENCED], CODES[Fate.YOUNG]
        >>> alone = np.array([old, young, old], np.int8)
        >>> staged = np.array([False, False, True])
        >>> [FATES[number].value for number in fate(Known(alone, is_staged=staged))]
        ['expired', 'young', 'staged']
    """
    alone = known.alone
    stays_alone = alone != CODES[Fate.UNREFERENCED]
    # No policy takes what name or age, people or branches keep.
    never = stays_alone | known.is_held | known.is_read | known.may_hide
    holds = [
        (Fate.TAKEN_BY_POLICY, known.is_due & ~never),
        (Fate.COMMITTED, known.is_committed),
        (Fate.STAGED, known.is_staged),
        (Fate.HELD, known.is_held),
        (None, stays_alone),
        (Fate.LEFT_TO_OTHERS, known.is_left),
        (Fate.NOT_NAMED, known.is_unnamed),
        (Fate.READ_BY_BRANCH, known.is_read),
        (Fate.MAY_HIDE, known.may_hide),
    ]
    found = np.full(alone.shape, CODES[Fate.UNREFERENCED], np.int8)
    # From the last to the first, so that the first that holds stands.
    for which, where in reversed(holds):
        found = np.where(where, alone if which is None else np.int8(CODES[which]), found)
    return found
