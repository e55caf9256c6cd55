"""Addresses, branch names and messages that carry markup or drive a terminal.

Shown as text wherever people look.
"""

import dataclasses
import io
import json
import re
import typing
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_dagster import metadata
from spark_core import report
from spark_core.addresses.namespace import Namespace
from spark_core.doctor.questions import found_by
from spark_core.errors import AddressError, UnsafePlanError
from spark_core.events import Event
from spark_core.lakefs import ServerOptions
from spark_core.lakefs.failures import ServerErrors
from spark_core.lakefs.logins import KeyPair
from spark_core.plain_text import visible
from spark_core.report.report import Report
from spark_core.report.trend import Point
from spark_core.report.values import (
    Check,
    FailedObject,
    Group,
    Named,
    ReferenceReport,
    Standing,
)
from spark_core.terminal import console

INSTANT = datetime(2026, 11, 1, tzinfo=UTC)
HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</style><svg onload=alert(1)>",
    "-->]]><!--",
    "&lt;b&gt;",
    "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil.example\x1b\\here",
    "\x9b31m\x9d0;owned\x9c",
    "gpj.\u202eexe\u2066\u200b\ufeff",
    "line\r\noverwritten\x08\x08\x7f",
    "[red]markup[/red] [link=http://evil.example]x[/link] :boom:",
    r"$\frac{1}$ $x",
    "=cmd|'/c calc'!A1",
    "a" * 5000,
)
EVIL = " ".join(HOSTILE)
_SGR = re.compile(r"\x1b\[[0-9;]*m")


def _hostile(kind):
    """A value of a type whose every text is hostile."""
    values = {str: EVIL, Group: Group(EVIL, 3, 3_000_000), datetime: INSTANT, int: 3, bool: False}
    if kind in values:
        return values[kind]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(
            **{field.name: _hostile(hints[field.name]) for field in dataclasses.fields(kind)}
        )
    inner = typing.get_args(kind)
    assert inner, kind
    if typing.get_origin(kind) is tuple:
        return tuple(_hostile(each) for each in inner if each is not ...)
    if type(None) in inner:
        return _hostile(next(each for each in inner if each is not type(None)))
    return {EVIL: _hostile(inner[1])}


REPORT = _hostile(Report)


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text = set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data):
        self.text.append(data)


def test_every_text_of_a_report_can_be_hostile():
    for named in (Named, FailedObject, Standing, Check, ReferenceReport):
        assert any(
            isinstance(value, str) and EVIL in value
            for value in dataclasses.asdict(_hostile(named)).values()
        )
    assert report.Report.from_json(REPORT.to_json(), name="x") == REPORT


def test_the_page_of_hostile_texts_has_no_markup_of_theirs_and_nothing_that_cannot_be_seen():
    points = [dataclasses.replace(Point.of(REPORT), run=run) for run in (EVIL, "later")]
    page = report.page(REPORT, past=points, server="https://lakefs.example.com")
    assert page.count("<script>") == page.count("</script>") == 1
    links = re.findall(r"<a ([^>]*)>", page)
    assert links
    assert all(
        re.fullmatch(r'href="https://lakefs\.example\.com/[\w%./?=&;~-]*" rel="[a-z ]*"', link)
        for link in links
    )
    reader = _Reader()
    reader.feed(page)
    assert not reader.tags & {
        "img",
        "link",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
    }
    assert not [
        name for name in reader.attributes if name.startswith("on") or name in {"src", "srcdoc"}
    ]
    assert all(one.isprintable() or one == "\n" for one in page)
    # Shown, not swallowed.
    assert any(r"\x1b[2J" in text and "<script>alert(1)</script>" in text for text in reader.text)
    assert "default-src 'none'" in page


@pytest.mark.slow
def test_the_picture_of_hostile_names_is_sound_and_reads_no_formula():
    assert report.chart(REPORT).startswith(b"\x89PNG")
    group = Group(r"$\nonsense{$", 1, 1)
    assert report.chart(dataclasses.replace(REPORT, by_reason=(group,), by_age=(), kept=()))


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_on_the_console_drives_the_terminal(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "6000")
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    shown = console.console(stream)
    console.show_report(shown, REPORT)
    console.show_error(shown, UnsafePlanError(EVIL))
    steps = console.Steps(shown)
    steps(Event("checked", "expired_addresses", EVIL, check=EVIL, passed=False))
    shown.print(EVIL, markup=False, soft_wrap=True)
    said = _SGR.sub("", stream.getvalue())
    assert all(one.isprintable() or one == "\n" for one in said)
    assert r"\x1b[2J" in said
    assert r"\u202e" in said
    # Markup of the console's own language is shown, too.
    assert "[red]markup[/red]" in said
    assert ":boom:" in said
    assert "\x1b]8;" not in stream.getvalue()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("word", ["a-", "x-amz-", "token"])
def test_an_endless_answer_is_shown_at_once_and_without_the_keys(word):
    keys = "AKIA0123456789", "s3cret+0123456789"
    errors = ServerErrors(ServerOptions("http://127.0.0.1:1", *keys), KeyPair(*keys))
    assert errors.shown(word * 500_000).startswith(word)
    for before in range(2_980, 3_001):
        said = errors.shown(" " * before + "s3cret+0123456789 of AKIA0123456789")
        assert not re.search("s3|AKIA", said)


def test_an_error_that_quotes_a_hostile_address_or_answer_can_be_shown():
    namespace = Namespace.parse("s3://bucket/repo")
    with pytest.raises(AddressError) as refusal:
        namespace.relative(f"{HOSTILE[5]}\0", 1)
    assert str(refusal.value).isprintable()
    assert all(one.isprintable() for one in found_by(refusal.value).text)
    keys = "AKIA", "secret"
    said = ServerErrors(ServerOptions("http://127.0.0.1:1", *keys), KeyPair(*keys)).shown(EVIL)
    assert said.isprintable()


def test_dagster_gets_foreign_texts_as_text_and_never_as_markdown():
    entries = metadata.figures_metadata({"why": EVIL, "names": [EVIL], "inner": {EVIL: EVIL}})
    kinds = {type(entry).__name__ for entry in entries.values()}
    assert kinds == {"TextMetadataValue", "JsonMetadataValue", "IntMetadataValue"}
    assert EVIL in json.dumps(entries["names"].value, ensure_ascii=False) or json.loads(
        json.dumps(entries["names"].value)
    ) == [EVIL]


@given(st.text())
def test_what_is_made_visible_is_seen_and_plain_text_stays_as_it_is(text):
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    if text.isprintable():
        assert shown == text
    assert visible(text, lines=True).replace("\n", "").isprintable()


def _printed(show):
    out = io.StringIO()
    show(console.console(out))
    return out.getvalue().splitlines()


FORGED = "a\nforged\r\nforged\x0bforged\x85forged\u2028forged"


@pytest.mark.parametrize(
    "show",
    [
        lambda shown: shown.print(f"path {FORGED} was kept", markup=False, soft_wrap=True),
        lambda shown: shown.print(f"\npath {FORGED}", soft_wrap=True),
        lambda shown: shown.print(console.table(FORGED, (FORGED,), [(FORGED,), ("b",)])),
        lambda shown: console.show_error(shown, UnsafePlanError(f"path {FORGED}", "Look.")),
        lambda shown: console.show_report(shown, REPORT),
    ],
    ids=["a sentence", "after an empty line", "a table", "an error", "a report"],
)
def test_no_name_begins_a_line_of_output(show):
    assert not [line for line in _printed(show) if line.startswith(("forged", "overwritten"))]


def test_an_error_of_several_lines_keeps_them_and_the_further_ones_stand_in():
    lines = _printed(lambda shown: console.show_error(shown, UnsafePlanError("one\ntwo", "Look.")))
    assert lines == ["lakegc: refused: one", "  two. Look."]
