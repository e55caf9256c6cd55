"""What is declared of the options of a run.

What the verdict keeps of them, and what settings say for them.
"""

from dataclasses import fields
from datetime import timedelta

import pytest

from spark_core.run.options_and_defaults import OPTIONS, RunOptions


def test_the_options_that_decide_are_kept_in_these_words():
    assert RunOptions().deciding == {
        "min_age_seconds": 86400.0,
        "allow_unsafe_min_age": False,
        "flat": False,
        "tags_protect": True,
        "keep_last": 0,
        "clock_margin_seconds": 3600.0,
        "hidden_entries": "by_time",
        "compacted": "keep",
        "longest_upload_seconds": 604800.0,
        "strangers": "keep",
        "inherited": "keep",
    }


def test_what_was_kept_is_what_holds_again_and_nothing_else_changes():
    then = RunOptions(
        min_age=timedelta(hours=30), strangers="collect", longest_upload=timedelta(days=1)
    )
    now = RunOptions(may_sweep=True, keep_runs=3, flat=True)
    kept = {**then.deciding, "an_option_that_is_gone_seconds": 1.0}
    assert now.as_decided(kept).deciding == then.deciding
    assert (now.as_decided(kept).may_sweep, now.as_decided(kept).keep_runs) == (True, 3)


def test_every_option_is_declared_and_no_two_have_one_name_in_settings():
    assert [option.name for option in OPTIONS] == [each.name for each in fields(RunOptions)]
    assert len({option.setting for option in OPTIONS}) == len(OPTIONS)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_what_settings_say_for_a_default_is_read_as_that_default(option):
    assert option.default == getattr(RunOptions(), option.name)
    assert option.read(option.write(option.default)) == option.default
