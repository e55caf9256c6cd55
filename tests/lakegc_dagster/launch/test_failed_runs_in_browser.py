"""Dagster's graph of thirty repositories in a real browser: one fails, and then succeeds."""

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pytest

from lakegc_dagster.assets import MARK_ASSETS
from lakegc_dagster.launch.home import open_instance
from lakegc_dagster.partitions import add_partition
from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.history import documents_history
from spark_core.errors import RepositoryStateError
from spark_core.model import RunKey
from tests.lakegc_dagster.test_runs_made_elsewhere import tick
from tests.support.browser import NEEDS_CHROMIUM, PATIENCE_MS, chromium
from tests.support.dagster_pages import COLLECTED, materialized, pages_of, wait_for, write_settings

pytestmark = [pytest.mark.spark, NEEDS_CHROMIUM]

OTHERS = [f"other-{number:02}" for number in range(29)]
NAMES = [asset.name for asset in MARK_ASSETS]


def refuse(*_args):
    raise RepositoryStateError("the namespace is shared", "Look at it.")


def succeed_elsewhere(settings, key):
    """Let Dagster know of good runs of all other repositories, which are not there."""
    with open_instance(settings.dagster_home) as instance:
        for repository_id in OTHERS:
            partition = add_partition(instance, repository_id, key)
            for name in NAMES:
                made = dg.AssetMaterialization(dg.AssetKey(name), partition=partition)
                instance.report_runless_asset_event(made)


def graph(page, pages, *, until):
    """The text of the graph of a mark, once it is as expected."""
    page.goto(f"{pages}/locations/lakegc/asset-groups/mark/lineage")
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:
        text = page.inner_text("body")
        if until(text) or time.monotonic() > deadline:
            return text
        page.wait_for_timeout(200)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_graph_of_thirty_repositories_shows_the_one_that_failed_until_it_succeeds(
    tmp_path, request, monkeypatch
):
    now = datetime.now(UTC)
    failed, good = RunKey.at(now - timedelta(minutes=2)), RunKey.at(now - timedelta(minutes=1))
    with Sandbox(tmp_path) as sandbox:
        settings = write_settings(tmp_path, sandbox)
        succeed_elsewhere(settings, failed)
        with pages_of(settings) as pages, chromium() as browser:
            documents_history(sandbox, COLLECTED, now=now)
            request.getfixturevalue("spark")
            with monkeypatch.context() as patched:
                patched.setattr("spark_core.mark.listing.preflight", refuse)
                assert not materialized(settings, COLLECTED, failed).success
            wait_for(pages)
            page = browser.new_page(viewport={"width": 2400, "height": 1000})
            page.set_default_timeout(PATIENCE_MS)
            red = graph(page, pages, until=lambda text: text.count("(1 failed)") == len(NAMES))
            assert red.count("(1 failed)") == len(NAMES), red
            assert materialized(settings, COLLECTED, good).success
            with open_instance(settings.dagster_home) as instance:
                tick(SimpleNamespace(settings=settings, instance=instance))
            healed = graph(page, pages, until=lambda text: "10 / 10 Passed" in text)
            assert "10 / 10 Passed" in healed, healed
            assert "failed" not in healed.lower()
            page.goto(f"{pages}/assets/deletion_report?view=partitions")
            page.get_by_text("Failed (0)").wait_for()
