"""The model's file and what checks it name the same guards and the same sizes."""

from __future__ import annotations

import re

import pytest

from tests.model import run

SOURCE = run.MODEL.read_text()


def test_each_guard_has_a_configuration_that_shows_its_lack():
    assert sorted(run.guards(SOURCE)) == sorted(run.GUARDS)


@pytest.mark.parametrize("guard", run.GUARDS)
def test_a_guard_is_one_line_that_says_more_than_its_name(guard):
    (line,) = set(SOURCE.splitlines()) - set(run.without(SOURCE, guard).splitlines())
    assert line.partition("/*")[0].strip()


def test_the_header_names_what_is_defined_and_nothing_else():
    header = SOURCE.partition("*/")[0].partition("run.py defines")[2]
    named = set(re.findall(r"\b[A-Z]{2,}\b", header))
    defined = {flag.removeprefix("-D").partition("=")[0] for flag in run.SMALL.flags}
    assert named == defined


def test_the_model_can_be_read_in_one_sitting():
    assert len(SOURCE.splitlines()) <= 400
