"""A change leads to the tests that it can touch."""

import subprocess

import pytest

from tests.support.changed import ROOT, Imports, changed_files, touched_tests

FILES = {
    "spark_core/__init__.py": "",
    "spark_core/room/__init__.py": "from spark_core.room.deep import act as act\n",
    "spark_core/room/deep.py": "from spark_core.base import rule\n",
    "spark_core/room/other.py": "import spark_core.base\n",
    "spark_core/base.py": "",
    "tests/conftest.py": "",
    "tests/room/conftest.py": "from tests.support.made import thing\n",
    "tests/support/made.py": "",
    "tests/room/test_act.py": "from spark_core.room import act\n",
    "tests/room/test_other.py": "from spark_core.room import other\nPAGE = 'guide.md'\n",
    "tests/test_guard.py": "",
    "tests/losses/guards.toml": (
        '[[loss]]\n[[loss.guards]]\nfile = "spark_core/base.py"\ntest = "tests/test_guard.py::a"\n'
    ),
    "docs/guide.md": "",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("spark_core/room/deep.py", {"tests/room/test_act.py"}),
        ("spark_core/room/other.py", {"tests/room/test_other.py"}),
        (
            "spark_core/base.py",
            {"tests/room/test_act.py", "tests/room/test_other.py", "tests/test_guard.py"},
        ),
        ("tests/support/made.py", {"tests/room/test_act.py", "tests/room/test_other.py"}),
        ("docs/guide.md", {"tests/room/test_other.py"}),
        ("tests/test_guard.py", {"tests/test_guard.py"}),
        ("docs/elsewhere.md", set()),
    ],
)
def test_a_change_touches_who_imports_guards_or_names_it(changed, tests, tree):
    assert touched_tests({changed}, tree) == tests


def test_a_change_of_what_all_stand_on_touches_all(tree):
    assert len(touched_tests({"pyproject.toml"}, tree)) == 3


def test_git_says_what_differs_from_a_branch(tree):
    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", "-C", tree, *who, *words], check=True, capture_output=True)

    git("init", "-b", "main")
    git("add", "-A")
    git("commit", "-m", "one")
    git("checkout", "-b", "work")
    (tree / "spark_core/base.py").write_text("x = 1\n")
    git("commit", "-am", "two")
    (tree / "spark_core/room/deep.py").write_text("x = 1\n")
    (tree / "new.py").write_text("")
    assert changed_files("main", tree) == {
        "spark_core/base.py",
        "spark_core/room/deep.py",
        "new.py",
    }
    with pytest.raises(ValueError, match="knows no 'elsewhere'"):
        changed_files("elsewhere", tree)


@pytest.mark.slow
def test_every_import_of_this_project_leads_to_a_file():
    graph = Imports(ROOT)
    reached = graph.reached_from("tests/roundtrip/test_inventory.py")
    assert {"spark_core/mark/listing.py", "spark_core/storage/inventory/iceberg.py"} <= reached
    assert "spark_core/notices/sending.py" not in reached
