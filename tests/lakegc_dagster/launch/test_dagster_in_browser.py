"""Dagster's pages of lakegc in a real browser, on a home with a sweep and a refused mark.

The texts are looked for, because Dagster's markup is its own to change.
"""

import json
import re
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlencode

import dagster as dg
import pytest

from lakegc_dagster.launch.home import open_instance
from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.history import documents_history
from spark_core.model import RunKey
from spark_core.records import tables
from tests.support.browser import NEEDS_CHROMIUM, PATIENCE_MS, chromium
from tests.support.dagster_pages import (
    COLLECTED,
    REFUSED,
    log_of,
    pages_of,
    run_both,
    wait_for,
    write_settings,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, NEEDS_CHROMIUM]

# So wide that no name in a graph is shortened.
WIDE = {"width": 2400, "height": 1000}


@pytest.fixture(scope="module")
def shown(tmp_path_factory, request):
    """The home's runs, where its pages are answered, and a page to open them in."""
    directory = tmp_path_factory.mktemp("shown")
    now = datetime.now(UTC)
    with Sandbox(directory) as sandbox:
        settings = write_settings(directory, sandbox)
        # The pages begin while Spark does.
        with pages_of(settings) as pages:
            for repository_id in (COLLECTED, REFUSED):
                documents_history(sandbox, repository_id, now=now)
            request.getfixturevalue("spark")
            home = run_both(settings, RunKey.at(now))
            with chromium() as browser:
                page = browser.new_page(viewport=WIDE)
                page.set_default_timeout(PATIENCE_MS)
                wait_for(pages)
                yield home, pages, page


@pytest.fixture
def opened(shown):
    """Open a page of Dagster's, and wait for texts of it."""
    _, pages, page = shown

    def open_(path, *texts):
        page.goto(f"{pages}/{path}")
        for text in texts:
            page.get_by_text(text).first.wait_for()
        return page

    return open_


def pattern_of(*parts):
    """Return a pattern of a text in which the parts stand in this order."""
    return re.compile(".*".join(re.escape(part) for part in parts), re.DOTALL)


def text_with(page, *patterns):
    """Return a page's text once it has all patterns: each part is of a query of its own."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:
        text = page.inner_text("body")
        lacking = [pattern.pattern for pattern in patterns if not pattern.search(text)]
        if not lacking:
            return text
        assert time.monotonic() < deadline, f"the page lacks {lacking}:\n{text}"
        page.wait_for_timeout(100)


def test_the_graph_of_a_mark_shows_its_assets_from_left_to_right(opened):
    page = opened("locations/lakegc/asset-groups/mark/lineage", "deletion_report")
    names = [spec.name for spec in tables.MARK_TABLES[:-1]]
    names += [tables.POLICY_EXPIRATIONS.name, tables.EXPIRED_ADDRESSES.name, "verdict"]
    names.append(tables.DELETION_REPORT.name)
    left = {name: page.get_by_text(name, exact=True).first.bounding_box()["x"] for name in names}
    assert sorted(names, key=left.__getitem__) == names


def test_the_page_of_expired_addresses_begins_with_what_a_person_asks(opened):
    columns = (
        "Address of the object, relative to the storage namespace.",
        "Why it may go; lakegc explain says more of one object.",
    )
    text = text_with(
        opened("assets/expired_addresses"),
        pattern_of("address\n", *columns),
        pattern_of(
            *("headline", "129 objects (440.6 kB) may go\n", "of 219 objects (783.0 kB)."),
            *("page\n", "_report.html"),
            *("objects_that_may_go", "129", "bytes_that_may_go", "440576"),
            *("share_of_bytes", "0.5627", "by_reason"),
            *("objects", "bytes", "what", "101", "259.2 kB"),
            *("only in commits past their retention", "by_age"),
            *("size_bytes", "seconds", "manifest_sha256"),
        ),
    )
    # The keys are names, which no object and no sentence widens.
    assert "largest_committed/data" not in text
    assert "without_bound/a commit" not in text


def test_the_headline_of_a_refused_mark_is_read_without_scrolling(opened):
    page = opened("assets/verdict", "This mark cannot be swept.")
    page.set_viewport_size({**WIDE, "width": 1280})
    words = page.get_by_text("This mark cannot be swept.").first
    room = words.evaluate(
        """words => {
          const range = document.createRange();
          range.selectNodeContents(words);
          const right = range.getBoundingClientRect().right;
          let box = words;
          while (getComputedStyle(box).overflowX !== "auto") box = box.parentElement;
          return box.getBoundingClientRect().right - right;
        }"""
    )
    page.set_viewport_size(WIDE)
    assert room >= 0
    assert "Refused by expired_share_is_plausible" in " ".join(words.inner_text().split())


def test_the_page_of_a_refused_run_ends_its_events_with_the_sentence_and_shows_no_stack(
    opened, shown
):
    home, _, _ = shown
    sentence = (
        "VerdictError: the mark of run [0-9TZ-]+ of refused did not pass its checks: "
        r"expired_share_is_plausible: 129 of 219 objects \(58.9%\)"
    )
    text = text_with(
        opened(f"runs/{home.refused}"),
        # Dagster's one line that names the step stands above it.
        re.compile(
            rf"RUN_FAILURE\n[^\n]*\['check_verdict'\]\.\n{sentence}.*Nothing was deleted\.\s*\Z",
            re.DOTALL,
        ),
        # What did not run is no failure of lakegc's.
        pattern_of("Errored (1)", "check_verdict", "Succeeded (11)", "Not executed (3)"),
    )
    assert "Stack Trace" not in text
    assert 'File "' not in text
    assert re.findall(r"Check (\w+) failed", text) == ["expired_share_is_plausible"]


def test_the_page_of_all_repositories_names_each_with_how_it_stands(opened):
    text_with(
        opened("assets/repositories"),
        pattern_of("headline", "440.6 kB reclaimed in 30 days", "Overdue: refused."),
        re.compile(r"^repository\s+overdue\s+waits\s", re.MULTILINE),
        re.compile(r"^collected\s.*440\.6 kB", re.MULTILINE),
        re.compile(r"^refused\s+no mark of it ever passed\s+440\.6 kB: conf", re.MULTILINE),
    )


def test_a_run_of_the_command_line_is_in_the_catalogue_with_its_figures_and_checks(opened, shown):
    home, _, _ = shown
    partition = f"{COLLECTED}|{home.key}"
    shown_as = ("Materialized", "Latest materialization", "Run\nNone", "Metadata", "headline")
    for asset, words in (
        ("verdict", "18 of 18 checks passed."),
        ("deletion_report", "129 objects (440.6 kB) deleted"),
    ):
        asked = urlencode({"view": "partitions", "partition": partition})
        text_with(opened(f"assets/{asset}?{asked}"), pattern_of(partition, *shown_as, words))
    asked = urlencode({"view": "checks", "checkDetail": "expired_share_is_plausible"})
    page = opened(f"assets/verdict?{asked}", "Execution history")
    page.get_by_text("Execution history").click()
    text_with(page, pattern_of("Failed", "refused|"), pattern_of("Passed", partition))


def test_a_run_is_started_by_hand_from_a_form_that_is_filled_in(opened):
    text_with(opened("locations/lakegc/jobs"), pattern_of("mark_and_sweep", "start_run"))
    page = opened("locations/lakegc/jobs/start_run/playground", "Launch Run")
    page.get_by_text("No errors").wait_for()
    editor = page.locator(".CodeMirror-code").first.inner_text()
    assert pattern_of("check_request:", "job: mark", "repository: ''", "run: now").search(editor)
    page.locator("button:enabled", has_text="Launch Run").wait_for()


def runs_of(settings):
    with open_instance(settings.dagster_home) as instance:
        return instance.get_runs_count()


def test_a_run_is_launched_by_its_button_and_its_page_hears_of_it(opened, shown):
    home, pages, page = shown
    before, refused = runs_of(home.settings), log_of(home.settings).read_text()
    with page.expect_websocket() as socket:
        opened("locations/lakegc/jobs/start_run/playground", "No errors")
    page.locator("button:enabled", has_text="Launch Run").click()
    page.wait_for_url(re.compile("/runs/"))
    # Nothing takes it from the queue here: there is no daemon.
    text_with(page, pattern_of("start_run", "This run is queued"))
    assert runs_of(home.settings) == before + 1
    assert not socket.value.is_closed()
    # GraphiQL asks for the schema as soon as it is open; the page before it may still be asking.
    with page.expect_response(
        lambda answer: "__schema" in (answer.request.post_data or "")
    ) as asked:
        page.goto(f"{pages}/graphql")
    assert asked.value.json()["data"]["__schema"]
    assert log_of(home.settings).read_text() == refused


LAUNCH = """mutation { launchRun(executionParams: {mode: "default", runConfigData: {},
  selector: {repositoryLocationName: "lakegc", repositoryName: "__repository__",
             pipelineName: "start_run"}}) { __typename } }"""
QUERY = urlencode({"query": LAUNCH})
# Each resolves to what the page saw.
WAYS = {
    "image": """new Promise(done => { const image = new Image();
        image.onload = image.onerror = () => done("asked");
        image.src = `${ui}/graphql?${query}`; })""",
    "form": """new Promise(done => { const frame = document.createElement("iframe");
        frame.name = "hidden"; frame.onload = () => done("asked"); document.body.append(frame);
        const form = document.createElement("form"); form.target = "hidden"; form.method = "POST";
        form.enctype = "text/plain"; form.action = `${ui}/graphql?${query}`;
        document.body.append(form); form.submit(); })""",
    "text": """fetch(`${ui}/graphql`, {method: "POST", mode: "no-cors", body,
        headers: {"Content-Type": "text/plain; application/json"}}).then(() => "asked")""",
    "nothing": """fetch(`${ui}/report_asset_materialization/forged`,
        {method: "POST", mode: "no-cors"}).then(() => "asked")""",
    "json": """fetch(`${ui}/graphql`, {method: "POST", body,
        headers: {"Content-Type": "application/json"}}).catch(() => "asked")""",
    "websocket": """new Promise(done => {
        const socket = new WebSocket(ui.replace("http", "ws") + "/graphql", "graphql-ws");
        socket.onopen = () => done("opened"); socket.onerror = () => done("asked"); })""",
}


@contextmanager
def page_elsewhere(page):
    """Open an empty page of another site in the browser."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://elsewhere.localhost:{server.server_port}/")
        yield page
        server.shutdown()


@pytest.mark.parametrize("way", WAYS)
def test_a_page_elsewhere_starts_nothing(shown, way):
    home, pages, page = shown
    before, said = runs_of(home.settings), log_of(home.settings).read_text()
    with page_elsewhere(page):
        given = {"ui": pages, "query": QUERY, "body": json.dumps({"query": LAUNCH})}
        assert page.evaluate(f"({{ui, query, body}}) => {WAYS[way]}", given) == "asked"
    assert runs_of(home.settings) == before
    with open_instance(home.settings.dagster_home) as instance:
        assert instance.get_latest_materialization_event(dg.AssetKey("forged")) is None
    assert log_of(home.settings).read_text()[len(said) :].count("The UI refused a request: ") == 1


def test_a_name_that_was_led_here_shows_no_page_of_the_ui(shown):
    _, pages, page = shown
    answer = page.goto(pages.replace("127.0.0.1", "elsewhere.localhost"))
    assert answer.status == 403
    assert "is for the host 'elsewhere.localhost:" in page.inner_text("body")
