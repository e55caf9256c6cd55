"""A repository on a remote store: what is told of it, and how its requests are counted."""

from benchmarks import figures, local


def test_requests_of_the_server_itself_are_not_counted():
    lines = [
        (
            "10:00:00.000 s3_ListObjectsV2 200 /bench ?list-type=2 100 4.00ms Boto3/1.40 "
            "md/Botocore#1.40"
        ),
        "10:00:00.010 s3_GetObject 200 /bench/_lakefs/a ? 100 0.10ms object_store/0.12",
        "10:00:00.020 s3_GetObject 200 /bench/_lakefs/b ? 100 0.10ms object_store/0.12",
        "10:00:00.030 s3_PutObject 200 /bench/_lakefs/c ? 100 0.10ms m/E aws-sdk-go-v2/1.36 ua/2.1",
        "half a li",
    ]
    assert figures.store_log(lines) == {"GetObject": 2, "ListObjectsV2": 1}


def test_a_made_repository_is_told_as_a_server_restores_it(tmp_path):
    shape = local.Shape.of(300)
    found = local.made(tmp_path, shape)
    told, files = local.told(found), local.files(found)
    ranges = {key.rpartition("/")[2] for key in files if key.startswith("_lakefs/")}
    assert set(told["dump"]) == {
        "commits_meta_range_id",
        "branches_meta_range_id",
        "tags_meta_range_id",
    }
    assert set(told["dump"].values()) <= ranges | {""}
    assert len(told["staged"]) == shape.staged
    assert all(one["address"] in files for one in told["staged"])
    assert len([key for key in files if key.startswith("data/")]) == shape.objects
    assert 0 < found.expired < shape.objects
    again = local.made(tmp_path, shape)
    assert again == found, "made once a day"
