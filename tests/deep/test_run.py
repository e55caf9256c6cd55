"""The deep run's parts, what it reads of pytest, and its table."""

from pathlib import Path

from tests.deep.run import ROOT, Result, parts, read_report, table

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_one"><properties>
<property name="figures" value="12 histories"/></properties></testcase>
<testcase classname="tests.a" name="test_two"><failure message="no">x</failure></testcase>
<testcase classname="tests.a" name="test_three"><error message="no">x</error></testcase>
<testcase classname="tests.a" name="test_four"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


def test_a_report_tells_what_passed_failed_and_was_tried():
    """Counts cases by their end; an error is a failure."""
    assert read_report(REPORT) == (
        1,
        1,
        ["tests.a.test_two", "tests.a.test_three"],
        ["12 histories"],
    )


def test_every_deep_test_is_in_a_part():
    """Goes through all files that name the marker, or try properties."""
    covered = [part.path for part in parts()]
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if ("mark.deep" in text or "@given" in text) and path != Path(__file__):
            name = path.relative_to(ROOT).as_posix()
            assert any(name == each or name.startswith(f"{each}/") for each in covered), name


def test_names_of_parts_are_unique_and_paths_exist():
    """A result is kept by its part's name."""
    every = list(parts())
    assert len({part.name for part in every}) == len(every)
    assert all((ROOT / part.path).exists() for part in every)


def test_a_table_names_what_failed_what_did_not_end_and_what_did_not_run():
    """A killed process is not a part without findings."""
    good = Result("search/a", 1200, 2, 0, 0, [], ["3 histories | 4 runs"])
    bad = Result("faults/b", 7, 1, 1, 1, ["tests.b.test_b"])
    killed = Result("losses", 7, 0, 0, -9)
    told = table([good, bad, killed], ["security"])
    assert "| search/a | 1,200 | 2 | 0 | 0 | 3 histories \\| 4 runs |" in told
    assert "| faults/b | 7 | 1 | 1 | tests.b.test_b |  |" in told
    assert "| losses | 7 | 0 | 0 | did not end |  |" in told
    assert "| security | not run |" in told
    assert "| **all** | 1,214 | 3 | 1 | 1 | |" in told
