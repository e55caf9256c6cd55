"""What a person may ask of one run, as the launchpad offers it."""

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.runs.run_config import ListingConfig, ops_config

ASKED = {"reference_mark": "ft6s0e1ksdufuaulm34g", "take_over": "2026-11-20T02-00-00Z"}


def job(name):
    return build_defs(None).resolve_job_def(name)


def test_each_asset_is_asked_what_concerns_it_and_dagster_knows_the_words():
    whole = job("mark_and_sweep")
    ops = ops_config(set(whole.graph.node_dict), ASKED)
    mark = {"reference_mark": ASKED["reference_mark"]}
    assert ops == {
        "namespace_slices": {"config": mark},
        "expired_addresses": {"config": mark},
        "deletion_report": {"config": ASKED},
        "house_keeping": {"config": {"take_over": ASKED["take_over"]}},
    }
    assert dg.validate_run_config(whole, {"ops": ops})
    ops["house_keeping"]["config"]["full"] = True
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(whole, {"ops": ops})


def test_a_job_is_asked_nothing_of_assets_that_it_does_not_make():
    ops = ops_config(set(job("sweep").graph.node_dict), ASKED)
    assert set(ops) == {"deletion_report", "house_keeping"}
    assert dg.validate_run_config(job("sweep"), {"ops": ops})


def test_what_a_mark_reads_is_asked_of_its_first_table_alone():
    mark = job("mark")
    ops = ops_config(set(mark.graph.node_dict), {"full": True})
    assert ops == {"namespace_slices": {"config": {"full": True}}}
    assert dg.validate_run_config(mark, {"ops": ops})


def test_the_launchpad_says_what_full_means():
    fields = ListingConfig.to_config_schema().as_field().config_type.fields
    assert {"full", "reference_mark"} == set(fields)
    assert "Read everything" in fields["full"].description


def test_a_run_is_opened_with_what_is_asked():
    assert ListingConfig(full=True).arguments() == {"reference_mark": None, "full": True}


def test_nothing_has_to_be_asked():
    assert (
        ops_config(
            {"namespace_slices", "house_keeping"}, {"reference_mark": None, "take_over": None}
        )
        == {}
    )
    assert dg.validate_run_config(job("mark"), {})
