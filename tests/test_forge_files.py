"""What a forge reads of this repository names what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FORGE = ROOT / ".github"
WORKFLOW = FORGE / "workflows" / "ci.yml"


@pytest.mark.slow
def test_the_workflow_of_ci_is_one():
    words = ["-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", WORKFLOW]
    told = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout


def test_ci_runs_each_spark_and_python_that_is_promised():
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    pythons = jobs["run"]["strategy"]["matrix"]["python"]
    project = (ROOT / "pyproject.toml").read_text()
    assert pythons == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    script = (ROOT / ".ci" / "test_spark.py").read_text()
    (lines,) = re.findall(r"^SPARKS = \{(.+)\}$", script, re.MULTILINE)
    sparks = re.findall(r'"([\d.]+)": ', lines)
    assert jobs["spark"]["strategy"]["matrix"]["spark"] == [*sparks, "newest", "connect", "oldest"]


def test_owners_are_named_for_places_that_there_are():
    lines = (FORGE / "CODEOWNERS").read_text().splitlines()
    places = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert places[0] == "*"
    assert [place for place in places[1:] if not (ROOT / place.strip("/")).exists()] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md", "changes/README.md"])
def test_links_of_pages_for_a_forge_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]+)#?([^)\s]*)\)", (ROOT / page).read_text()):
        if target.startswith("https://"):
            continue
        text = (ROOT / page).parent.joinpath(target).read_text()
        titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
        assert not anchor or anchor in anchors, f"{target}#{anchor}"


def test_the_hook_of_commits_refuses_subjects_above_72_columns():
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (hook,) = [each for each in local["hooks"] if each["id"] == "subject"]
    assert (hook["language"], hook["stages"]) == ("pygrep", ["commit-msg"])
    assert re.search(hook["entry"], f"{'x' * 73}\n\nbody\n")
    assert not re.search(hook["entry"], f"{'x' * 72}\n\n{'body ' * 30}\n")
