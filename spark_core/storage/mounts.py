"""Where folders are mounted from: file systems of this machine alone, or any other."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

# What is mounted where, as the kernel tells it (Linux; `man 5 proc_pid_mountinfo`). Tests replace
# it.
MOUNTS = Path("/proc/self/mountinfo")

# Only the machine that has such a file system mounted reads and writes it. Every other type is
# doubtful: most are of a network, and what is behind FUSE, 9p or virtiofs nobody can tell.
_OF_ONE_MACHINE = frozenset(
    ("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs")
)

_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_of_this_machine(folder: str, *, whole: bool) -> bool:
    """Say whether a folder certainly lies on a file system that no other machine writes.

    Args:
        folder: An absolute path.
        whole: Whether to ask the same of everything that is mounted below the folder.

    Returns:
        False also if it cannot be told: on systems without such a list of mounts, or for a type
        that is not known.
    """
    try:
        real = PurePosixPath(Path(folder).resolve(strict=True))
        mounts = [_read(line) for line in MOUNTS.read_text(errors="surrogateescape").splitlines()]
    except (OSError, ValueError, IndexError):
        return False
    around = [mount for mount in mounts if real.is_relative_to(mount[0])]
    if not around:
        return False
    # What is mounted later covers what was mounted there before.
    deepest = max(len(point.parts) for point, _ in around)
    (*_, (_, kind)) = (mount for mount in around if len(mount[0].parts) == deepest)
    below = {kind for point, kind in mounts if whole and real in point.parents}
    return {kind, *below} <= _OF_ONE_MACHINE


def _read(line: str) -> tuple[PurePosixPath, str]:
    """Read the mount point and the type of one line; optional fields lie between them."""
    before, _, after = line.partition(" - ")
    point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), before.split(" ")[4])
    return PurePosixPath(point), after.split(" ")[0]
