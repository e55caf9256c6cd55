"""Which folders lie on file systems that only this machine writes."""

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.storage import StoreOptions, mounts, open_store
from spark_core.storage.mounts import is_of_this_machine


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    """Give a folder, and let the kernel tell of mounts: type by place, `.` for the folder."""
    folder = tmp_path / "a place" / "blocks"
    folder.mkdir(parents=True)
    told = tmp_path / "mountinfo"
    monkeypatch.setattr(mounts, "MOUNTS", told)

    def mount(*kinds):
        lines = []
        for number, (place, kind) in enumerate(kinds):
            point = str((folder / place).resolve()).replace(" ", "\\040")
            lines.append(
                f"{number} 1 8:{number} /sub {point} rw,noatime shared:7 - {kind} /dev/x rw"
            )
        told.write_text("\n".join(lines) + "\n")
        return str(folder)

    return mount


@pytest.mark.parametrize(
    ("kinds", "certain"),
    [
        ([("/", "ext4"), ("/elsewhere", "nfs4")], True),
        ([("/", "nfs4"), (".", "xfs")], True),
        ([("/", "ext4"), (".", "nfs4")], False),
        ([("/", "ext4"), ("..", "cifs")], False),
        # FUSE may be anything, and so may a type that is not known.
        ([("/", "ext4"), (".", "fuse.sshfs")], False),
        ([("/", "ext4"), (".", "virtiofs")], False),
        ([("/", "ext4"), (".", "newfs")], False),
        # What is mounted later covers what was there.
        ([("/", "ext4"), (".", "ext4"), (".", "nfs")], False),
        ([("/", "ext4"), (".", "nfs"), (".", "ext4")], True),
        ([("/elsewhere", "ext4")], False),
    ],
)
def test_a_folder_is_of_this_machine_where_its_file_system_certainly_is(mounted, kinds, certain):
    folder = mounted(*kinds)
    assert is_of_this_machine(folder, whole=True) is certain
    assert is_of_this_machine(folder, whole=False) is certain


def test_what_is_mounted_below_counts_where_the_whole_folder_is_asked_about(mounted):
    folder = mounted(("/", "ext4"), ("repo/data", "nfs4"))
    assert not is_of_this_machine(folder, whole=True)
    assert is_of_this_machine(folder, whole=False)
    folder = mounted(("/", "ext4"), ("repo/data", "tmpfs"))
    assert is_of_this_machine(folder, whole=True)


def test_a_link_to_a_network_is_on_the_network(mounted, tmp_path):
    folder = mounted(("/", "ext4"), (".", "nfs4"))
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert not is_of_this_machine(str(link), whole=False)


@pytest.mark.parametrize("told", [None, "", "nonsense\n", "1 2 3 - ext4"])
def test_where_the_system_tells_of_no_mounts_nothing_is_certain(mounted, told):
    folder = mounted(("/", "ext4"))
    if told is None:
        mounts.MOUNTS.unlink()
    else:
        mounts.MOUNTS.write_text(told)
    assert not is_of_this_machine(folder, whole=False)
    assert not is_of_this_machine("/no/such/folder", whole=False)


def test_a_local_store_knows_when_a_call_has_ended_and_one_on_a_network_does_not(mounted):
    namespace = Namespace.parse("local://repo", server_path="/server")
    for kind, seconds in (("ext4", 0), ("nfs4", None)):
        folder = mounted(("/", "ext4"), (".", kind))
        store = open_store(namespace, StoreOptions(local_path=folder))
        longest = store.longest_request
        assert (None if longest is None else longest.total_seconds()) == seconds
