"""Asking branches about paths: few calls, nothing missed, and what is not asked is kept."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.errors import IncompleteReadError, NotFoundError
from spark_core.lakefs import EntriesPage
from spark_core.mark.twins import ask, just_before
from spark_core.model import Branch
from spark_core.run import RunOptions

paths = st.text(st.characters(codec="utf-8"), max_size=4)


@dataclass
class Branches:
    """A server that knows what its branches show."""

    entries: dict[str, dict[str, str]]
    page: int = 3
    calls: int = 0
    gone: str = ""

    def branches(self, _repository):
        return [Branch(name, "c") for name in self.entries if name != self.gone]

    def list_entries(self, _repository, branch, *, after):
        self.calls += 1
        if branch == self.gone or branch not in self.entries:
            raise NotFoundError("branch not found")
        ordered = sorted(self.entries[branch].items(), key=lambda item: item[0].encode())
        behind = [item for item in ordered if item[0].encode() > after.encode()]
        return EntriesPage(behind[: self.page], has_more=len(behind) > self.page)


def _run(server, calls=1000):
    return SimpleNamespace(
        server=server,
        options=replace(RunOptions(), twin_calls=calls),
        repository=SimpleNamespace(id="repo"),
        namespace=SimpleNamespace(relative_absolute=lambda uri: uri),
    )


@given(path=paths)
def test_just_before_sorts_before_the_path(path):
    assert just_before(path.encode()).encode() < path.encode() or not path


@settings(max_examples=200)
@given(
    branches=st.dictionaries(st.sampled_from("abc"), st.dictionaries(paths, st.text("xyz", min_size=1), max_size=12)),
    wanted=st.sets(paths, max_size=6),
    page=st.integers(1, 5),
)
def test_every_address_that_a_branch_shows_under_a_path_is_found(branches, wanted, page):
    server = Branches(branches, page)
    answers = ask(_run(server), sorted(path.encode() for path in wanted if path))
    expected = {shown[path] for shown in branches.values() for path in wanted if path and path in shown}
    assert answers.live == expected
    assert answers.calls == server.calls
    assert not answers.unasked


@settings(max_examples=200)
@given(
    branches=st.dictionaries(
        st.sampled_from("abc"), st.dictionaries(paths.filter(bool), st.text("xyz", min_size=1), max_size=12), min_size=1
    ),
    calls=st.integers(0, 6),
)
def test_what_the_budget_does_not_reach_is_named_as_unasked(branches, calls):
    wanted = sorted({path.encode() for shown in branches.values() for path in shown})
    answers = ask(_run(Branches(branches, page=2), calls=calls), wanted)
    assert answers.calls <= calls
    for shown in branches.values():
        for path, address in shown.items():
            assert address in answers.live or path.encode() in answers.unasked


def test_neighbouring_paths_share_a_call():
    server = Branches({"main": {f"p/{number:04}": f"a{number}" for number in range(1000)}}, page=1000)
    answers = ask(_run(server), [f"p/{number:04}".encode() for number in range(1000)])
    assert len(answers.live) == 1000
    assert server.calls == 1


def test_a_branch_that_was_deleted_meanwhile_has_nothing_staged():
    class Vanishing(Branches):
        def branches(self, repository):
            shown = super().branches(repository)
            self.gone = "old"
            return shown

    server = Vanishing({"main": {"p": "live"}, "old": {"p": "staged"}})
    assert ask(_run(server), [b"p"]).live == {"live"}


def test_a_branch_that_is_there_but_not_found_is_a_failure():
    class Confused(Branches):
        def list_entries(self, _repository, _branch, *, after):
            raise NotFoundError("repository not found")

    with pytest.raises(NotFoundError):
        ask(_run(Confused({"main": {}})), [b"p"])


def test_a_list_that_says_more_and_shows_nothing_is_refused():
    class Stuck(Branches):
        def list_entries(self, _repository, _branch, *, after):
            return EntriesPage([], has_more=True)

    with pytest.raises(IncompleteReadError, match="says that more follow"):
        ask(_run(Stuck({"main": {}})), [b"p"])
