"""The page of a report in a real browser: Chromium, as Debian has it."""

import csv
from dataclasses import replace

import pytest

from spark_core import report
from spark_core.report.fleet import fleet_page
from spark_core.report.trend import Point
from tests.security.test_hostile_text import REPORT as HOSTILE
from tests.spark_core.report.test_fleet_page import FLEET
from tests.spark_core.report.test_page import CHECKED, CURVE, REPORT
from tests.support.browser import NEEDS_CHROMIUM, PATIENCE_MS, chromium
from tests.support.fleet import NOW, fleet_row, past_run
from tests.support.stored_formats import AT

pytestmark = NEEDS_CHROMIUM

LARGEST = (
    report.Named("data/s/small", 9, AT, "never committed"),
    report.Named("data/s/large", 10_000, AT, "logs/a.csv: replaced", "logs/a.csv", "c0ffee" * 10),
    report.Named("=cmd|'/c calc'!A1", 200, AT, 'says "quoted", twice'),
)
LONG = (report.Group("s" * 300, 1, 5), report.Group("(not known)", 1, 5))
SHOWN = replace(REPORT, largest=LARGEST, by_slice=LONG, by_prefix=LONG, by_branch=LONG)
PAST = [Point(f"2026-11-{day}T02-00-00Z", 9_000, 5_000, 4_000, 0) for day in (18, 19, 20)]


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser, tmp_path):
    """Open HTML; what it asks of the network, says and complains about is noted."""
    contexts = []

    def open_(html, *, width=1200, scheme="light"):
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.asked, page.said = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("dialog", lambda dialog: page.said.append(dialog.message))
        page.goto(file.as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()


def addresses(page):
    return page.locator(".named tbody tr:visible td:first-child").all_inner_texts()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
@pytest.mark.parametrize("width", [pytest.param(1200, marks=pytest.mark.slow), 400])
def test_the_page_fits_its_window_and_asks_nobody(opened, width, scheme):
    html = report.page(SHOWN, past=PAST, what_if=CURVE, server="https://lakefs.example.com")
    page = opened(html, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [url for url in page.asked if not url.startswith("file:")] == []
    assert page.said == []
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_the_page_of_all_repositories_fits_its_window_and_asks_nobody(opened, width, scheme):
    html = fleet_page([*FLEET, fleet_row("n" * 63, [past_run(0)])], now=NOW, server="https://l.org")
    page = opened(html, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    table = page.locator(".fleet .scroll")
    assert table.evaluate("it => it.scrollWidth <= it.clientWidth")
    assert [url for url in page.asked if not url.startswith("file:")] == []
    assert page.said == []


@pytest.mark.slow
def test_repositories_are_sorted_by_what_they_have_and_searched_by_state(opened):
    page = opened(fleet_page(FLEET, now=NOW))
    assert addresses(page) == ["lake", "models", "raw", "archive"]
    page.get_by_role("button", name="waiting").click()
    page.get_by_role("button", name="waiting").click()
    assert addresses(page)[0] == "models"
    page.get_by_role("searchbox").fill("overdue")
    assert addresses(page) == ["raw"]


@pytest.mark.slow
def test_the_table_is_searched_sorted_and_downloaded(opened, tmp_path):
    page = opened(report.page(SHOWN))
    assert addresses(page) == [row.address for row in LARGEST]
    page.get_by_role("button", name="bytes").click()
    assert addresses(page) == ["data/s/small", "=cmd|'/c calc'!A1", "data/s/large"]
    page.get_by_role("button", name="bytes").click()
    assert addresses(page) == ["data/s/large", "=cmd|'/c calc'!A1", "data/s/small"]
    page.get_by_role("searchbox").fill("DATA logs")
    assert addresses(page) == ["data/s/large"]
    assert page.locator("output").inner_text() == "1 of 3"
    page.get_by_role("searchbox").fill("")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "lakegc-repo-2026-11-20T02-00-00Z.csv"
    download.value.save_as(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["address", "bytes", "written", "why", "last commit"]
    assert [row[:2] for row in rows] == [
        ["data/s/large", "10000"],
        # A spreadsheet takes it for text.
        ["'=cmd|'/c calc'!A1", "200"],
        ["data/s/small", "9"],
    ]
    assert rows[0][4] == LARGEST[1].commit
    assert rows[1][3] == 'says "quoted", twice'
    assert page.said == []


@pytest.mark.slow
def test_hostile_texts_run_nothing_and_fit_the_window(opened):
    html = report.page(HOSTILE, past=PAST, server="https://lakefs.example.com")
    page = opened(html, width=400)
    assert page.said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert [url for url in page.asked if not url.startswith("file:")] == []


@pytest.mark.slow
def test_markup_that_got_past_the_escaping_runs_and_fetches_nothing(opened):
    evil = '<script>alert(1)</script><img src="http://127.0.0.1:9/x" onerror="alert(2)">'
    page = opened(report.page(REPORT).replace("<h1>", f"{evil}<h1>"))
    assert len(page.said) >= 2
    assert all("Content Security Policy" in text for text in page.said)


def test_findings_of_a_refused_mark_are_seen_and_checks_that_passed_are_folded(opened):
    page = opened(report.page(CHECKED))
    assert page.locator(".finding", has_text="90.0% would go").is_visible()
    assert not page.get_by_text("clocks_agree").is_visible()
    page.get_by_text("Checks: 1 of 2 passed").click()
    assert page.get_by_text("clocks_agree").is_visible()
