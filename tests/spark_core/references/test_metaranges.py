"""What metaranges cost, in entries that take as long, decides who reads them."""

from spark_core.references.metaranges import work_of_metaranges
from spark_core.spark import placement


def test_the_driver_reads_the_metaranges_of_some_hundred_commits():
    assert placement.driver_works(work_of_metaranges(480))
    assert not placement.driver_works(work_of_metaranges(481))
