"""The addresses of every recorded commit, read from the real server's own tables."""

import pytest

from spark_core import graveler
from spark_core.addresses.namespace import AddressType, Namespace
from tests.support import golden


def _namespace(name):
    return Namespace.parse(
        golden.expected(name)["storage_namespace"], server_path=golden.SERVER_PATH
    )


def _addresses(root, namespace, metarange_id):
    """Address as the recording writes it: relative inside the namespace, absolute outside."""
    found = []
    ranges = graveler.read_metarange(
        (root / "_lakefs" / metarange_id).read_bytes(), name=metarange_id
    )
    for row in ranges.to_pylist():
        data = (root / "_lakefs" / row["range_id"]).read_bytes()
        entries = graveler.read_range(data, name=row["range_id"], expected_count=row["count"])
        relative = namespace.relative_batch(
            entries.column("address"), entries.column("address_type")
        )
        for inside, entry in zip(relative.to_pylist(), entries.to_pylist(), strict=True):
            scalar = namespace.relative(entry["address"], entry["address_type"])
            assert inside == scalar
            found.append((entry["path"].decode(), inside or entry["address"]))
    return found


@pytest.mark.parametrize("name", golden.REPOSITORIES)
def test_every_commit_reaches_exactly_the_recorded_addresses(name, tmp_path):
    expected, namespace = golden.expected(name), _namespace(name)
    root = golden.unpack(name, tmp_path)
    table = expected["entry_table"]
    inside_or_out = {}
    for metarange_id, indexes in expected["metaranges"].items():
        if metarange_id:
            inside_or_out[metarange_id] = sorted(
                (table[index][0], _spelled(table[index][1])) for index in indexes
            )
    for metarange_id, wanted in inside_or_out.items():
        found = [
            (path, _spelled(address)) for path, address in _addresses(root, namespace, metarange_id)
        ]
        assert sorted(found) == wanted


def _spelled(address):
    """Recordings hide the machine's path behind placeholders."""
    return address.replace("<BLOCKSTORE>", golden.SERVER_PATH).replace(
        "<EXTERNAL>", "/srv/lakefs/state/local/ext"
    )


def test_the_recordings_hold_full_addresses_inside_the_namespace(tmp_path):
    root, namespace = golden.unpack("merges", tmp_path), _namespace("merges")
    full_inside = 0
    for metarange_id in golden.expected("merges")["metaranges"]:
        if not metarange_id:
            continue
        ranges = graveler.read_metarange(
            (root / "_lakefs" / metarange_id).read_bytes(), name=metarange_id
        )
        for range_id in ranges.column("range_id").to_pylist():
            entries = graveler.read_range((root / "_lakefs" / range_id).read_bytes(), name=range_id)
            for entry in entries.to_pylist():
                if entry["address_type"] == AddressType.FULL:
                    full_inside += (
                        namespace.relative(entry["address"], entry["address_type"]) is not None
                    )
    assert full_inside > 0


STAGED = [
    name
    for name in golden.REPOSITORIES
    if golden.expected(name)["prepare_uncommitted"] and name != "bare"
]


@pytest.mark.slow
@pytest.mark.parametrize("name", golden.slow_where_large(STAGED))
def test_the_servers_scan_alone_would_lose_exactly_the_staged_objects_that_it_does_not_list(
    name, tmp_path
):
    expected, namespace = golden.expected(name), _namespace(name)
    root = golden.unpack(name, tmp_path)
    committed, expired = set(), set(expected["never_committed_and_not_staged"])
    for metarange_id in expected["metaranges"]:
        if metarange_id:
            committed |= {address for _, address in _addresses(root, namespace, metarange_id)}
    listed = {row[0] for row in expected["listing"]}
    scanned = {row[0] for row in expected["prepare_uncommitted"]["rows"]}
    unlisted = {_address(row) for row in expected["prepare_uncommitted"]["staged_but_not_listed"]}
    lost = listed - committed - scanned - expired
    assert lost == (unlisted & listed) - committed
    assert bool(lost) is (name in {"merges", "s3-features", "sealed-tokens"})


def _address(row):
    return row if isinstance(row, str) else row["address"]
