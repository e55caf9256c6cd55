"""The report page of a run, as a link of Dagster's leads to it."""

from urllib.parse import urlsplit

import pytest

from lakegc_dagster.launch.request_guard import hosts_of
from lakegc_dagster.launch.webserver import GuardedPages
from tests.lakegc_dagster.conftest import Ground, failure, new_key
from tests.lakegc_dagster.launch.test_webserver import ask

pytestmark = pytest.mark.spark
BASE = "http://localhost:3000/reports"


@pytest.fixture
def linked(ground, monkeypatch):
    """The ground with a base URL in its settings, and Dagster's pages in front of nothing."""
    document = ground.settings.model_dump(exclude_unset=True) | {"report": {"base_url": BASE}}
    settings = type(ground.settings).model_validate(document)
    settings._env = ground.settings._env
    monkeypatch.setattr("lakegc_dagster.launch.report_pages.load_settings", lambda: settings)

    async def dagsters(_scope, _receive, _send):
        raise AssertionError("a report is none of Dagster's pages")

    made = Ground(ground.sandbox, ground.repository_id, settings, ground.instance)
    return made, GuardedPages(dagsters, hosts_of("127.0.0.1", []))


@pytest.mark.slow
def test_the_link_of_a_run_leads_to_its_page(linked):
    ground, app = linked
    swept = ground.job("mark_and_sweep", new_key())
    assert swept.success, failure(swept)
    for name in ("expired_addresses", "verdict", "deletion_report"):
        (event,) = swept.asset_materializations_for_node(name)
        link = event.metadata["page"]
        assert type(link).__name__ == "UrlMetadataValue"
        assert link.value.startswith(f"{BASE}/{ground.repository_id}/_lakefs/retention/gc/")
        status, headers, text = ask(app, "GET", urlsplit(link.value).path)
        assert status == 200
        assert ground.repository_id in text
        assert "<html" in text
        # What is in it may not act as a page of the UI.
        assert headers[b"content-security-policy"] == b"sandbox allow-scripts"
    (event,) = swept.asset_materializations_for_node("verdict")
    missing = urlsplit(event.metadata["page"].value).path.replace("run_id=20", "run_id=19")
    assert ask(app, "GET", missing)[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/reports/",
        "/reports/one/data/secret",
        "/reports/one/_lakefs/retention/gc/reports/run_id=x/../../_report.html",
        "/reports/../_lakefs/retention/gc/reports/run_id=1/_report.html",
        "/reports/one/_lakefs/retention/gc/addresses/run_id=1/_verdict.json",
    ],
)
def test_nothing_else_of_a_store_is_shown(linked, path):
    _, app = linked
    assert ask(app, "GET", path)[0] == 404


def test_a_repository_that_the_settings_do_not_have_is_refused(linked):
    _, app = linked
    path = "/reports/another/_lakefs/retention/gc/reports/run_id=2026-11-20T02-00-00Z/_report.html"
    status, _, text = ask(app, "GET", path)
    assert status == 403
    assert "is not in the settings" in text


def test_a_page_is_for_the_hosts_of_the_ui_alone(linked):
    _, app = linked
    path = "/reports/one/_lakefs/retention/gc/reports/run_id=2026-11-20T02-00-00Z/_report.html"
    assert ask(app, "GET", path, {"host": "elsewhere.example"})[0] == 403
