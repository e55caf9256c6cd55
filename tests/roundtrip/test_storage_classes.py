"""Each object keeps its storage class from the listing to the sum and price of what goes."""

from collections import Counter

import pytest

from spark_core.prices import Price
from spark_core.records import tables
from spark_core.records.figures import DeletionFigures, ExpiredFigures, ListedFigures
from spark_core.report.past_runs import past_runs
from tests.support.moto_s3 import moto_s3
from tests.support.moved_repository import collected_exactly

pytestmark = pytest.mark.spark

CLASSES = ("STANDARD", "STANDARD_IA", "GLACIER_IR")


@pytest.mark.slow
def test_bytes_are_summed_up_by_the_classes_that_the_listing_says(tmp_path, spark):
    with moto_s3() as s3:
        bucket, client = s3.bucket(), s3.client()
        written, size = {}, {}

        def put(key, data):
            written[key] = CLASSES[len(written) % len(CLASSES)]
            size[key] = len(data)
            client.put_object(Bucket=bucket, Key=f"ns/{key}", Body=data, StorageClass=written[key])

        def names():
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="ns/")
            return {
                found["Key"].removeprefix("ns/")
                for page in pages
                for found in page.get("Contents", [])
            }

        run = collected_exactly(
            f"s3://{bucket}/ns", s3.options(), tmp_path, spark, put=put, names=names
        )
        dead = written.keys() - names()
        (told,) = past_runs(run.store, run.now())

    def by_class(keys):
        found = Counter()
        for key in keys:
            found[written[key]] += size[key]
        return {name: of for name, of in found.items() if of}

    listed = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)
    expired = ExpiredFigures.of(run.load(tables.EXPIRED_ADDRESSES).manifest)
    swept = DeletionFigures.of(run.load(tables.DELETION_REPORT).manifest)
    assert sum(listed.by_class.values()) == listed.object_bytes
    assert listed.by_class == by_class(key for key in written if key.startswith("data/"))
    assert len(listed.by_class) == len(CLASSES)
    assert expired.bytes_by_class == swept.planned_by_class == by_class(dead)
    assert (told.listed_by_class, told.expired_by_class) == (listed.by_class, by_class(dead))
    (class_of_dead,) = by_class(dead)
    price = told.price_of_expired(Price(9, by_class={class_of_dead: 4}))
    assert price.amount(told.expired_bytes) == pytest.approx(4e-9 * told.expired_bytes)
