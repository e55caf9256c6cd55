"""Whether an executor that was lost may be at work: attempts, copies, and stages that ran again."""

from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from spark_core.spark.session import may_be_at_work, speculates

WHOLE = SimpleNamespace(currentAttemptId=0, numFailedTasks=0)


def session(*stages, master="spark://host:7077", speculates="false", group=None):
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda asked=None: [0, 1] if asked == group else [],
        getJobInfo=lambda job: None if job else SimpleNamespace(stageIds=range(len(stages))),
        getStageInfo=lambda stage: stages[stage],
    )
    return SimpleNamespace(
        sparkContext=SimpleNamespace(
            master=master,
            statusTracker=lambda: tracker,
            getLocalProperty=lambda name: group if name == "spark.jobGroup.id" else None,
        ),
        conf=SimpleNamespace(get=lambda _name, _default: speculates),
    )


@pytest.mark.parametrize(
    "again",
    [
        SimpleNamespace(currentAttemptId=1, numFailedTasks=0),
        SimpleNamespace(currentAttemptId=0, numFailedTasks=1),
    ],
    ids=["a stage ran again", "a task of it failed"],
)
def test_a_stage_that_ran_again_is_a_sign_although_its_tasks_count_their_attempts_anew(again):
    assert may_be_at_work(session(WHOLE, again), was_retried=False)
    assert not may_be_at_work(session(WHOLE, None, WHOLE), was_retried=False)


def test_a_stage_that_ran_again_in_the_group_of_a_notebooks_cell_is_a_sign():
    again = SimpleNamespace(currentAttemptId=1, numFailedTasks=0)
    assert may_be_at_work(session(again, group="cell 1"), was_retried=False)


def test_attempts_and_copies_are_signs_and_on_one_machine_nothing_is():
    assert may_be_at_work(session(WHOLE), was_retried=True)
    assert may_be_at_work(session(WHOLE, speculates="true"), was_retried=False)
    again = SimpleNamespace(currentAttemptId=1, numFailedTasks=1)
    assert not may_be_at_work(session(again, master="local[2]"), was_retried=True)


def test_a_server_that_does_not_tell_what_it_ran_again_may_have_an_attempt_at_work():
    class Connect:
        __module__ = "pyspark.sql.connect.session"

    assert may_be_at_work(Connect(), was_retried=False)


def test_a_session_that_does_not_tell_whether_it_makes_copies_may_make_them():
    def get(_name, _default):
        raise PySparkException("[CONFIG_NOT_AVAILABLE]")

    assert speculates(SimpleNamespace(conf=SimpleNamespace(get=get)))


@pytest.mark.slow
@pytest.mark.spark
def test_spark_tells_of_the_jobs_of_a_group_by_its_name_alone(spark):
    context = spark.sparkContext
    name = "spark.jobGroup.id"
    context.setLocalProperty(name, "cell 7")
    try:
        spark.range(4).count()
        assert context.getLocalProperty(name) == "cell 7"
        mine = set(context.statusTracker().getJobIdsForGroup("cell 7"))
    finally:
        context.setLocalProperty(name, None)
    assert mine
    assert not mine & set(context.statusTracker().getJobIdsForGroup())


@pytest.mark.slow
@pytest.mark.spark
def test_sparks_own_tracker_answers(spark):
    spark.range(4).repartition(2).count()
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup()]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    assert any(stage and stage.currentAttemptId == 0 for stage in stages)
