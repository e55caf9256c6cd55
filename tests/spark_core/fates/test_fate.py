"""The fates: which of them let an object go, and the words of each."""

from __future__ import annotations

from spark_core.fates import Fate, WhyMayGo
from spark_core.fates.fate import SENTENCES


def test_only_two_fates_let_an_object_go() -> None:
    assert [fate for fate in Fate if fate.may_go] == [Fate.TAKEN_BY_POLICY, Fate.UNREFERENCED]


def test_each_fate_has_a_sentence_without_an_or() -> None:
    assert [fate for fate in Fate if not fate.sentence or " or " in fate.sentence] == []


def test_sentences_stand_in_the_order_of_fates_and_no_two_are_alike() -> None:
    assert list(SENTENCES) == [fate.value for fate in Fate]
    assert len(set(SENTENCES.values())) == len(Fate)


def test_a_cause_follows_its_sentence_once() -> None:
    path = f"{Fate.READ_BY_BRANCH.sentence}: a/b"
    assert Fate.READ_BY_BRANCH.with_cause(path) == path
    assert Fate.HELD.with_cause("hold q3") == f"{Fate.HELD.sentence}: hold q3"
    assert [fate for fate in Fate if fate.with_cause(fate.sentence) != fate.sentence] == []


def test_reasons_of_tables_and_reports_of_old_are_still_known() -> None:
    assert [
        WhyMayGo(text).name
        for text in (
            "only in commits past their retention",
            "in no commit, and not staged",
            "in no retained commit, and not staged",
        )
    ] == ["ONLY_EXPIRED_COMMITS", "NEVER_COMMITTED", "UNREACHABLE"]
