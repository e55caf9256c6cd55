"""Asking branches about paths: few calls, nothing missed, and what is not asked is kept."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.errors import NotFoundError
from spark_core.lakefs import CallBudget, EntriesPage
from spark_core.mark.twins import ask
from spark_core.model import Branch

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


def _run(server):
    return SimpleNamespace(
        server=server,
        repository=SimpleNamespace(id="repo"),
        namespace=SimpleNamespace(relative_absolute=lambda uri: uri),
    )


@settings(max_examples=200)
@given(
    branches=st.dictionaries(st.sampled_from("abc"), st.dictionaries(paths, st.text("xyz", min_size=1), max_size=12)),
    wanted=st.sets(paths, max_size=6),
    page=st.integers(1, 5),
)
def test_every_address_that_a_branch_shows_under_a_path_is_found(branches, wanted, page):
    server = Branches(branches, page)
    budget = CallBudget(1000)
    live = ask(_run(server), sorted(wanted), budget)
    assert live.keys() == {shown[path] for shown in branches.values() for path in wanted if path and path in shown}
    assert all(address in {shown.get(path) for shown in branches.values()} for address, path in live.items())
    assert budget.made == server.calls
    assert not budget.unasked


@settings(max_examples=200)
@given(
    branches=st.dictionaries(
        st.sampled_from("abc"), st.dictionaries(paths.filter(bool), st.text("xyz", min_size=1), max_size=12), min_size=1
    ),
    calls=st.integers(0, 6),
)
def test_what_the_budget_does_not_reach_is_named_as_unasked(branches, calls):
    wanted = sorted({path for shown in branches.values() for path in shown})
    budget = CallBudget(calls)
    live = ask(_run(Branches(branches, page=2)), wanted, budget)
    assert budget.made <= calls
    for shown in branches.values():
        for path, address in shown.items():
            assert address in live or path in budget.unasked


def test_neighbouring_paths_share_a_call():
    server = Branches({"main": {f"p/{number:04}": f"a{number}" for number in range(1000)}}, page=1000)
    live = ask(_run(server), [f"p/{number:04}" for number in range(1000)], CallBudget(10))
    assert len(live) == 1000
    assert server.calls == 1


def test_a_branch_that_was_deleted_meanwhile_has_nothing_staged():
    class Vanishing(Branches):
        def branches(self, repository):
            shown = super().branches(repository)
            self.gone = "old"
            return shown

    server = Vanishing({"main": {"p": "live"}, "old": {"p": "staged"}})
    assert ask(_run(server), ["p"], CallBudget(10)) == {"live": "p"}


def test_a_branch_that_is_there_but_not_found_is_a_failure():
    class Confused(Branches):
        def list_entries(self, _repository, _branch, *, after):
            raise NotFoundError("repository not found")

    with pytest.raises(NotFoundError):
        ask(_run(Confused({"main": {}})), ["p"], CallBudget(10))


OWN = "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag"
ASIDE = f"_lakefs/retention/gc/quarantine/run_id=2026-11-20T02-00-00Z/{OWN}"


@pytest.mark.parametrize(
    ("shown", "address"),
    [
        (f"s3://an-access-point/repo/{OWN}", OWN),
        (f"s3://an-access-point/repo/{ASIDE}", ASIDE),
        ("s3://elsewhere/photo.jpg", None),
    ],
)
def test_by_another_name_of_the_store_an_object_is_known_where_it_lies(shown, address):
    run = _run(Branches({"main": {"p": shown}}))
    run.namespace = SimpleNamespace(relative_absolute=lambda _uri: None)
    assert ask(run, ["p"], CallBudget(10)) == ({} if address is None else {address: "p"})
