"""What the pages say of settings, checks, commands and each other is true."""

from __future__ import annotations

import ast
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from spark_core.checks import CHECKS
from spark_core.cli import reference_page as commands
from spark_core.cli.main import main
from spark_core.run.options_and_defaults import OPTIONS
from spark_core.settings import Settings, reference_page
from spark_core.settings.sections import RepositorySettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]*)#?([^)\s]*)\)")
# Words that stand for something on a command line, and something of their kind.
PLACEHOLDERS = dict.fromkeys(("KEY", "RUN", "NEW"), "2026-11-20T02-00-00Z")
# Files that the pages name.
FILES = (
    "certificate.json",
    "lakegc-certificate-my-repo-2026-11-20T02-00-00Z.json",
    "key.pem",
    "key.pub",
    "operator.pem",
    "policy.json",
    "policy.yml",
    "retention.json",
    "retention.yml",
    "rules.json",
    "shorter.json",
)
# The name of a command, such as `lakegc confirm`, which is more than nothing and less than a line.
NAMED = re.compile(r"lakegc(?: [a-z-]+)+")


def test_no_page_and_no_deployment_installs_a_name_that_anybody_may_register():
    deployments = [path for path in (ROOT / "deploy").rglob("*") if path.is_file()]
    engine = ROOT / "packaging" / "engine" / "README.md"
    by_name = re.compile(
        r"pip3? install\s[^`\n]*?(?<=[\s'\"])(lakegc(?:-engine)?(?:\[[a-z0-9,]+\])?)['\"=\s`]"
    )
    found = {
        str(path.relative_to(ROOT)): by_name.findall(path.read_text())
        for path in (*PAGES, *deployments, engine)
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_the_page_of_the_settings_is_what_the_settings_say():
    told = "run `python -m spark_core.settings.reference_page`"
    assert reference_page.PAGE.read_text() == reference_page.page(), told


def test_every_setting_has_a_row_with_its_default():
    rows = dict(
        re.findall(
            r"^\| `([a-z_0-9]+)` \| [^|]+ \| ([^|]+) \|", reference_page.page(), re.MULTILINE
        )
    )
    tables = [
        each.annotation
        for each in Settings.model_fields.values()
        if hasattr(each.annotation, "model_fields")
    ]
    assert len(tables) == 11
    assert {name for table in tables for name in table.model_fields} - rows.keys() == set()
    for name, info in RepositorySettings.model_fields.items():
        default, said = info.default, rows[name].strip("`")
        words = {True: "true", False: "false", None: "none"}
        shown = words[default] if default is None or isinstance(default, bool) else default
        assert said == str(shown) or float(said) == float(shown), name


def test_settings_lift_the_checks_that_the_page_about_checks_says():
    page = (ROOT / "docs" / "checks.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+)` \| [^|]+ \| ([^|]+ \| [^|]+) \|$", page, re.MULTILINE)
    assert [name for name, _ in rows] == [name for name, _, _ in CHECKS]
    names = {option.setting for option in OPTIONS}
    said = {
        (name, setting)
        for name, cells in rows
        for setting in re.findall(r"`([a-z_]+)`", cells)
        if setting in names
    }
    declared = {
        (check, option.setting)
        for option in OPTIONS
        for check in option.lifts
        if check.isidentifier()
    }
    assert declared == said


def test_the_page_of_the_commands_is_what_click_says():
    told = "run `python -m spark_core.cli.reference_page`"
    assert commands.PAGE.read_text() == commands.page(), told
    titles = re.findall(r"^## (.+)$", commands.page(), re.MULTILINE)
    assert {title.split()[1] for title in titles} == main.commands.keys()


def command_lines(text: str) -> Iterator[str]:
    """Yield what a page says to type, in its text and its blocks of code (not those of `text`)."""
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        prompt = r"\$ " if kind == "console" else r"(?:\$ )?"
        for line in block.replace("\\\n", " ").splitlines() if kind != "text" else ():
            typed = re.match(rf"{prompt}((?:[A-Z_]+=\S+ )*lakegc .*)", line)
            if typed:
                yield typed[1]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`(lakegc\s[^`]+)`", prose):
        yield " ".join(code.split())


def parse(line: str) -> None:
    """Parse a command line as click would, up to where the command would begin to work."""
    words = shlex.split(re.split(r" [>|] ", line)[0], comments=True)
    while not words[0].endswith("lakegc"):
        words.pop(0)
    arguments = [PLACEHOLDERS.get(word, word) for word in words[1:]]
    command: click.Command = main
    while isinstance(command, click.Group) and arguments:
        assert arguments[0] in command.commands, f"{line}: there is no {arguments[0]}"
        command = command.commands[arguments.pop(0)]
    if arguments or (command is not main and not NAMED.fullmatch(line)):
        command.make_context("lakegc", arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_of_a_page_is_one(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        (tmp_path / name).write_text("{}")
    for line in command_lines(page.read_text()):
        parse(line)


def test_a_command_line_that_is_none_is_found():
    text = "```sh\n$ lakegc mark my-repo --sweep\n```\nand `lakegc holds my-repo`"
    wrong, absent = command_lines(text)
    with pytest.raises(click.NoSuchOption):
        parse(wrong)
    with pytest.raises(AssertionError, match="there is no holds"):
        parse(absent)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_heading_that_is_there(page):
    for target, anchor in LINK.findall(page.read_text()):
        if target.startswith("http"):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in anchors, f"{target}#{anchor}"


def test_the_site_names_every_page_once():
    def pages(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        else:
            for each in entry.values() if isinstance(entry, dict) else entry:
                yield from pages(each)

    named = sorted(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert named == sorted(str(page.relative_to(DOCS)) for page in PAGES[1:])


@pytest.mark.parametrize(
    "page", sorted((DOCS / "decisions").glob("*.md")), ids=lambda page: page.stem
)
def test_a_decision_is_a_page(page):
    assert len(page.read_text().splitlines()) <= 60
    assert page.stem == "index" or "**Decision.**" in page.read_text()


def test_the_readme_is_short():
    lines = PAGES[0].read_text().splitlines()
    assert len(lines) < 120
    assert max(map(len, lines)) <= 100


def test_the_glossary_is_short_and_none_of_its_words_is_the_name_of_two_classes():
    page = (DOCS / "glossary.md").read_text()
    words = re.findall(r"^\| ([a-z ]+) \| (?!what it is)", page, re.MULTILINE)
    assert 20 <= len(words) <= 25
    classes = Counter(
        node.name.strip("_").lower()
        for file in (ROOT / "spark_core").rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert [word for word in words if classes[word.replace(" ", "")] > 1] == []


def test_how_it_works_is_read_in_a_quarter_of_an_hour_and_has_one_picture():
    page = (DOCS / "how-it-works.md").read_text()
    assert len(page.split()) <= 3000
    assert page.count("![") == 1


def test_the_pages_are_read_in_an_afternoon():
    made = {DOCS / "commands.md", DOCS / "settings.md", DOCS / "deep-run.md"}
    apart = {DOCS / "decisions", DOCS / "platforms"}
    words = 0
    for page in PAGES[1:]:
        if page not in made and page.parent not in apart:
            text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
            words += sum(any(map(str.isalnum, word)) for word in text.split())
    assert words <= 29_500, "say each thing once, in a table; arguments are decisions"
