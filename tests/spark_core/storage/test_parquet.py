"""Tables are written as Parquet without dictionaries of what hardly repeats."""

import io
import random
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from spark_core.schemas import EXPIRED_ADDRESSES, repeating
from spark_core.storage import parquet


def test_a_file_has_dictionaries_only_of_columns_that_repeat():
    dice = random.Random(1)
    rows = pa.Table.from_pylist(
        [
            {
                "address": f"data/slice/{dice.randbytes(10).hex()}",
                "size_bytes": number % 7,
                "last_modified": datetime(2026, 11, 20, tzinfo=UTC),
                "slice": "slice",
                "reason": f"reason {number % 3}",
            }
            for number in range(5_000)
        ],
        schema=EXPIRED_ADDRESSES,
    )
    sink, plain = io.BytesIO(), io.BytesIO()
    assert parquet.write(sink, rows.to_batches(), EXPIRED_ADDRESSES)[0] == rows.num_rows
    assert pq.read_table(sink).equals(rows)
    group = pq.read_metadata(sink).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    with_one = [each.path_in_schema for each in columns if each.has_dictionary_page]
    assert with_one == repeating(EXPIRED_ADDRESSES) == [*EXPIRED_ADDRESSES.names[1:]]
    pq.write_table(rows, plain, compression="zstd")
    assert len(sink.getvalue()) < len(plain.getvalue())
