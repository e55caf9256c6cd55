"""The page and the chart of a report: whole, harmless, and nothing left out."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from io import StringIO

import pyarrow as pa
import pytest

from spark_core import report
from spark_core.errors import CorruptTableError
from spark_core.fates import Fate
from spark_core.lakefs import ServerOptions
from spark_core.mark.group_sums import GroupSums
from spark_core.prices import Price
from spark_core.records.figures import CommitsFigures, ExpiredFigures, ListedFigures
from spark_core.report import Check, Group, Named, Report, Rules
from spark_core.report.cautions import cautions
from spark_core.report.mark_summary import explained
from spark_core.report.page_style import SCRIPT
from spark_core.report.text_blocks import Rows, blocks
from spark_core.report.trend import Point
from spark_core.report.values import NOT_KNOWN
from spark_core.report.what_if import WhatIfCurve
from spark_core.terminal.console import console, show_report
from tests.support.figures import read

INSTANT = datetime(2026, 11, 1, tzinfo=UTC)
REPORT = Report(
    repository="repo",
    run="2026-11-20T02-00-00Z",
    place="s3://bucket/repo/",
    cutoff=INSTANT,
    mark="m" * 64,
    listed=Group("listed", 3, 3_000_000),
    expired=Group("may go", 1, 1_000_000),
    by_reason=(Group("in no commit, and not staged", 1, 1_000_000),),
    by_age=(Group("7 to 30 days", 1, 1_000_000),),
    by_slice=(Group("gqv3epl4fd2o8m3men70", 1, 1_000_000),),
    kept=(Group("a retained commit reaches it", 2, 2_000_000),),
    commits={"head of main": 1},
    largest=(
        Named(
            "data/s/<script>alert(1)</script>", 1_000_000, INSTANT, "in no commit, and not staged"
        ),
    ),
    passed=True,
    refused={},
)
_VOID = {"meta", "input"}


class _Balanced(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.open += [] if tag in _VOID else [tag]
        assert not {name for name, _ in attrs} & {"src", "onload", "onclick"}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_balanced_and_needs_nothing_beside_itself():
    parser = _Balanced()
    parser.feed(report.page(REPORT))
    assert parser.open == []
    assert "svg" in parser.seen
    assert not {"link", "img", "iframe"} & set(parser.seen)
    assert parser.seen.count("script") == 1


def test_a_browser_runs_the_script_of_the_page_and_no_other():
    page = report.page(REPORT)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert script == SCRIPT


def test_the_headline_says_what_goes_its_share_and_what_it_costs():
    shown = report.page(REPORT)
    assert "1 of 3 objects may go" in shown
    assert "1.0 MB of 3.0 MB: 33.3% of the objects, 33.3% of the bytes." in shown
    assert "a month" not in shown
    paid = report.page(REPORT, price=Price(1_000))
    assert "of the bytes. That is 1.00 a month, of 3.00 a month." in paid
    swept = replace(REPORT, sweep="s", outcomes=(Group("failed", 1, 1_000_000),))
    assert "0 of 1 object that the mark let go were deleted" in report.page(swept)
    nothing = Group("listed", 0, 0)
    assert "Nothing may go, of 0 objects" in report.page(
        replace(REPORT, listed=nothing, expired=replace(nothing, name="may go"))
    )


COMMITTED = replace(REPORT.largest[0], path="a b/\u00fc&c.csv", commit="c0ffee" * 10)


def test_links_lead_to_commit_and_object_where_the_server_is_known():
    made = replace(REPORT, largest=(COMMITTED,))
    shown = unescape(report.page(made, server="https://lakefs.example.com"))
    where = f"https://lakefs.example.com/repositories/repo/commits/{COMMITTED.commit}"
    assert f'<a href="{where}" rel="noreferrer noopener">c0ffeec0ffee</a>' in shown
    assert f"/repositories/repo/object?ref={COMMITTED.commit}&path=a%20b%2F%C3%BC%26c.csv" in shown
    assert "<a " not in report.page(made)
    assert "c0ffeec0ffee" in report.page(made)
    no_utf8 = replace(COMMITTED, path="a\ufffd")
    shown = report.page(replace(REPORT, largest=(no_utf8,)), server="https://lakefs.example.com")
    assert shown.count("<a ") == 1


def test_the_url_of_links_is_the_endpoint_without_the_api():
    for endpoint in ("https://lakefs.example.com/api/v1", "https://lakefs.example.com/"):
        assert ServerOptions(endpoint, "key", "secret").url == "https://lakefs.example.com"


def test_the_rules_in_force_are_shown_with_the_settings_that_decided():
    settings = {"min_age_hours": 24.0, "flat": False}
    ruled = replace(REPORT, rules=Rules(14, {"main": 21, "dev": 1}, 3, settings))
    shown = report.page(ruled)
    for text in (
        "A branch keeps 14 days unless it has a rule of its own. 3 more branches have one.",
        ">main</td><td>21 days<",
        ">dev</td><td>1 day<",
        ">min_age_hours</td><td>24<",
        ">flat</td><td>false<",
    ):
        assert text in shown
    none = report.page(replace(REPORT, rules=Rules(None)))
    assert "no retention rules, so every commit keeps its objects" in none
    assert "Rules in force" not in report.page(REPORT)
    assert Report.from_json(ruled.to_json(), name="r") == ruled


def test_the_trend_is_drawn_from_two_runs_on():
    runs = [
        Point("2026-11-19T02-00-00Z", 4_000_000, 1_000_000, 3_000_000, 2_000_000),
        Point("2026-11-20T02-00-00Z", 3_000_000, 2_000_000, 1_000_000, 0),
    ]
    shown = report.page(REPORT, past=runs)
    assert "The last 2 runs" in shown
    assert '<path class="garbage" d="M0.00,25.00L100.00,75.00"/>' in shown
    assert "2026-11-19T02-00-00Z: 2.0 MB reclaimed" in shown
    assert "The last" not in report.page(REPORT, past=runs[:1])


CURVE = WhatIfCurve(
    asked_at=INSTANT,
    days=(1, 7, 30),
    free=tuple(
        Group(f"every branch keeps {days}", objects, size)
        for days, objects, size in ((1, 9, 9_000), (7, 5, 4_500), (30, 0, 0))
    ),
    now=(Group("the rules of now", 5, 4_500), Group("the rules of now, in 7 days", 6, 5_000)),
    never_committed=Group("never committed", 1, 7),
    kept_by_one=(Group("without branch feature-x", 3, 2_000),),
)


def test_what_other_rules_would_free_is_drawn_where_somebody_asked():
    page = report.page(REPORT, what_if=CURVE, price=Price(1e6))
    assert 'd="M0.00,0.00L50.00,50.00L100.00,100.00"' in page
    assert "<title>7 days: 5 objects, 4.5 kB</title>" in page
    assert "<span>1</span><span>7</span><span>30</span>" in page
    assert "the rules of now, in 7 days" in page
    assert "4.50 a month" in page
    assert "What one alone keeps" in page
    assert "without branch feature-x" in page
    asks = report.page(REPORT)
    assert f"lakegc what-if {REPORT.repository} --run {REPORT.run}" in asks
    assert "so many days" not in asks


def test_an_answer_of_another_format_is_passed_over():
    kept = CURVE.to_json()
    assert WhatIfCurve.from_json(kept, name="x") == CURVE
    for broken in (b"{}", b"[", kept.replace(b'"format": 1', b'"format": 2')):
        with pytest.raises(CorruptTableError):
            WhatIfCurve.from_json(broken, name="x")


EXPLAINED = read(
    ExpiredFigures,
    by_reason=(("in no commit, and not staged", 3, 200), ("only in commits", 9, 800)),
    explained_by_prefix=(("logs/", 4, 500), ("(others)", 2, 100)),
    explained_by_branch=(("<b>dev", 6, 600),),
    unexplained={"objects": 3, "bytes": 200},
)


def test_of_a_mark_without_explanations_all_is_unknown_that_a_commit_had():
    figures = replace(EXPLAINED, explained_by_prefix=None, unexplained=None)
    rest = (Group("(never committed)", 3, 200), Group("(not known)", 9, 800))
    assert explained(figures, figures.explained_by_prefix) == rest


def test_what_may_go_is_drawn_by_folder_and_by_branch_with_what_is_not_known_of_it():
    by_prefix = explained(EXPLAINED, EXPLAINED.explained_by_prefix)
    rest = (Group("(never committed)", 3, 200), Group("(not known)", 3, 200))
    assert by_prefix == (Group("logs/", 4, 500), Group("(others)", 2, 100), *rest)
    by_branch = explained(EXPLAINED, EXPLAINED.explained_by_branch)
    assert by_branch == (Group("<b>dev", 6, 600), *rest)
    told = replace(REPORT, by_prefix=by_prefix, by_branch=by_branch)
    assert Report.from_json(told.to_json(), name="r") == told
    page = report.page(told)
    assert "<figcaption>What may go, by folder</figcaption>" in page
    assert '<span>&lt;b&gt;dev</span><span class="n">6 objects, 600 bytes</span>' in page
    assert "those of the last commit that had the object. They are not known for" in page


def test_where_nothing_was_explained_the_page_says_what_no_commit_had_and_what_is_not_known():
    unknown = explained(EXPLAINED, None)
    assert unknown == (Group("(never committed)", 3, 200), Group("(not known)", 9, 800))
    page = report.page(replace(REPORT, by_prefix=unknown, by_branch=unknown))
    assert "last commit that had" not in page
    assert "They are not known for" in page
    assert "They are not known for" not in report.page(replace(REPORT, by_prefix=unknown[:1]))
    earlier = json.loads(REPORT.to_json())
    del earlier["by_prefix"], earlier["by_branch"]
    assert "by folder" not in report.page(Report.from_json(json.dumps(earlier).encode(), name="r"))


def test_the_groups_with_most_bytes_are_named_and_the_others_are_one():
    names = pa.chunked_array([[*"abcde", *"abc"]])
    sums = GroupSums.of(names, pa.chunked_array([[1, 2, 3, 4, 5, 10, 10, 0]]))
    assert sums.first(2).groups == (("b", 2, 12), ("a", 2, 11), ("(others)", 4, 12))
    more = sums.first(2)
    more.merge(sums.first(4))
    assert more.first(2).groups == (("b", 4, 24), ("a", 4, 22), ("(others)", 8, 24))


def test_slices_beyond_the_first_eight_are_folded():
    slices = tuple(Group(f"slice{number}", 1, 10) for number in range(11))
    assert "<summary>3 more</summary>" in report.page(replace(REPORT, by_slice=slices))


def test_the_page_shows_every_figure_of_the_report():
    page = report.page(REPORT)
    for text in (
        "Mark of repo, run 2026-11-20T02-00-00Z",
        "s3://bucket/repo/",
        "1.0 MB",
        "3.0 MB",
        "a retained commit reaches it",
        "gqv3epl4fd2o8m3men70",
        "head of main",
        "data/s/&lt;script&gt;",
        "Every check passed, so",
    ):
        assert text in page


UNUSUAL = replace(
    REPORT,
    cautions=cautions(
        read(ListedFigures, unsafe_min_age=True, min_age_seconds=1, grace_period_seconds=86_400),
        read(CommitsFigures, refs_read_by="walk", unknown_to_walk=7),
        read(ExpiredFigures),
    ),
)


def test_a_mark_of_objects_younger_than_the_grace_period_and_one_without_a_dump_are_plain_to_see():
    shown = StringIO()
    show_report(console(shown), UNUSUAL)
    for text in (report.page(UNUSUAL), shown.getvalue(), UNUSUAL.to_json().decode()):
        assert (
            "allow_unsafe_min_age is on: objects from an age of 0:00:01 on were considered" in text
        )
        assert "refs read by: walk, because the user may not make a refs dump" in text
        assert "(7 do so)" in text
    assert Report.from_json(UNUSUAL.to_json(), name="r") == UNUSUAL


def test_what_only_a_setting_keeps_stands_in_the_headline_with_the_setting():
    figures = {"stranger": [3, 4_000], "inherited": [2, 1_000], "uploading": [0, 0]}
    kept = (
        Group(Fate.STRANGER.sentence, 3, 4_000),
        *REPORT.kept,
        Group(Fate.INHERITED.sentence, 2, 1_000),
    )
    made = replace(
        REPORT,
        expired=Group("may go", 0, 0),
        kept=kept,
        cautions=cautions(
            read(ListedFigures),
            read(CommitsFigures),
            read(ExpiredFigures, by_fate=figures),
        ),
    )
    assert len(made.cautions) == 2
    shown = StringIO()
    show_report(console(shown), made)
    headline = next(line for line in shown.getvalue().splitlines() if line)
    assert headline == (
        "repo, run 2026-11-20T02-00-00Z: nothing may go, of 3 objects, 3.0 MB; "
        f"kept by a setting: 3 objects, 4.0 kB, {Fate.STRANGER.sentence}; "
        f"kept by a setting: 2 objects, 1.0 kB, {Fate.INHERITED.sentence}"
    )
    for text in (unescape(report.page(made)), shown.getvalue()):
        assert (
            "3 objects (4.0 kB) that nothing refers to are kept: they have names that lakeFS does "
            "not give" in text
        )
        assert 'inherited = "collect"` considers them as well' in text
    assert f"3 objects kept: {Fate.STRANGER.sentence}" in unescape(report.page(made))


def test_an_ordinary_mark_needs_no_caution():
    assert cautions(read(ListedFigures), read(CommitsFigures), read(ExpiredFigures)) == ()
    figures = read(ExpiredFigures, seen={"unseen_objects": 2_000})
    (words,) = cautions(read(ListedFigures), read(CommitsFigures), figures)
    assert words.startswith("2,000 objects of those that may go were taken from the index and not")
    assert "Caution" not in report.page(REPORT)


CHECKED = replace(
    REPORT,
    passed=False,
    refused={"share": "90.0% would go. Confirm it."},
    checks=(
        Check("clocks_agree", True, "server agrees", "300 s", "nothing lifts it"),
        Check("share", False, "90.0% would go. Confirm it.", "50.0% <of all>", "`lakegc confirm`"),
    ),
)


def test_every_check_is_shown_with_its_limit_and_a_failed_one_with_the_way_on():
    shown = StringIO()
    show_report(console(shown), CHECKED)
    assert "50.0% &lt;of all&gt;" in report.page(CHECKED)
    assert "50.0% <of all>" in shown.getvalue()
    for text in (report.page(CHECKED), shown.getvalue()):
        for word in ("clocks_agree", "passed", "300 s", "refused", "90.0% would go. Confirm it."):
            assert word in text
        assert "`lakegc confirm`" in text
    assert "Checks: 1 of 2 passed" in report.page(CHECKED)
    before_the_fold = report.page(CHECKED).partition("<details")[0]
    assert "90.0% would go. Confirm it." in before_the_fold
    assert Report.from_json(CHECKED.to_json(), name="r") == CHECKED


def test_a_finding_that_was_confirmed_says_by_whom():
    checks = (replace(CHECKED.checks[1], confirmed="ann@desk at 2026-11-20 02:00 UTC"),)
    confirmed = replace(CHECKED, passed=True, refused={}, checks=checks)
    shown = StringIO()
    show_report(console(shown), confirmed)
    for text in (report.page(confirmed), shown.getvalue()):
        assert "confirmed by ann@desk at 2026-11-20 02:00 UTC" in text
    assert "Every check passed" not in report.page(confirmed)


def test_a_page_without_a_verdict_says_that_it_cannot_be_swept():
    assert "were not run yet: this mark cannot be swept" in report.page(
        replace(REPORT, passed=None)
    )


@pytest.mark.slow
def test_the_chart_is_drawn_without_a_display_and_the_same_each_time(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    assert report.chart(REPORT).startswith(b"\x89PNG")
    assert report.chart(REPORT) == report.chart(REPORT)


def test_json_and_back_is_the_same_report():
    swept = replace(REPORT, sweep="s", outcomes=(Group("deleted", 1, 1_000_000),))
    for each in (REPORT, swept):
        assert Report.from_json(each.to_json(), name="r") == each


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (10**15, "1.0 PB"),
        (10**12, "1.0 TB"),
    ],
)
def test_bytes_are_printed_in_the_unit_that_fits(size_bytes, text):
    assert report.bytes_text(size_bytes) == text


def test_a_terminal_says_after_a_sweep_what_was_deleted_by_folder_and_branch():
    outcomes = (Group("deleted", 1, 1_000_000),)
    places = {"by_prefix": (Group("tables/", 1, 1_000_000),), "by_branch": (Group("dev", 1, 1),)}
    swept = list(blocks(replace(REPORT, sweep="s", outcomes=outcomes, **places)))
    assert "1 object, 1.0 MB was deleted, of " in swept[0].text
    titles = [each.title for each in swept if isinstance(each, Rows)]
    assert "What the mark let go, by folder" in titles
    assert "What the mark let go, by branch" in titles
    assert not [title for title in titles if "slice" in title]
    unread = replace(REPORT, by_prefix=(Group(NOT_KNOWN, 1, 1),), by_slice=(Group("s", 1, 1),))
    titles = [each.title for each in blocks(unread) if isinstance(each, Rows)]
    assert "What may go, by slice" in titles
