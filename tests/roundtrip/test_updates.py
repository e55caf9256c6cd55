"""An update of lakegc between the steps of a run."""

from __future__ import annotations

import pytest

from lakegc_dagster.sandbox import gc
from spark_core import __version__, mark
from spark_core.checks import verdict
from spark_core.errors import ChainError
from spark_core.records import tables
from spark_core.run import chain
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import sweep_only

pytestmark = pytest.mark.spark


def test_a_mark_does_not_go_on_with_another_version_and_a_mark_that_ended_is_swept_by_any(
    sandbox, spark, monkeypatch
):
    """Else its index would count as that of the new version, which reads something better."""
    place = HidingPlace(sandbox, spark)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(10, {}))
    dead = place.committed(50, "p", b"first")
    place.committed(40, "p", b"second")
    run = place.run(0, max_expired_share=1)
    refusal = rf"begun by lakegc {__version__}, and this is 9\.9"
    slices = run.keep(mark.namespace_slices(run))
    uncommitted = run.keep(mark.uncommitted_addresses(run, slices))
    with monkeypatch.context() as updated:
        updated.setattr(chain, "__version__", "9.9")
        with pytest.raises(ChainError, match=refusal):
            mark.retained_commits(run, uncommitted)
    commits = run.keep(mark.retained_commits(run, uncommitted))
    made = {tables.RETAINED_COMMITS.name: commits}
    committed = run.keep(mark.make(run, tables.COMMITTED_ADDRESSES, made))
    four = chain.Mark(slices, uncommitted, commits, committed)
    with monkeypatch.context() as updated:
        updated.setattr(chain, "__version__", "9.9")
        with pytest.raises(ChainError, match=refusal):
            mark.expired_addresses(run, four)
    run.keep(mark.expired_addresses(run, four))
    assert verdict.conclude(run)[0].passed
    monkeypatch.setattr(chain, "__version__", "9.9")
    assert sweep_only(place.run(0, max_expired_share=1)) == {dead: "deleted"}
