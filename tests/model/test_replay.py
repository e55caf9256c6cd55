"""Histories of objects that the model allows, and some that it must refuse."""

from __future__ import annotations

import pytest

from tests.model import replay, run

pytestmark = pytest.mark.skipif(bool(run.why_not()), reason=run.why_not())

MARK = "CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) DIFF_1( ) REFS( ) VERDICT( )"
LEASE = "LEASE( ) TAKEN( )"
LOOK = "SCAN( ) DIFF_0( ) DIFF_1( ) REFS( )"
DELETED = "INTENT( ) REQUEST+LANDS( ) OUTCOME( ) REPORT( ) deleted"
UNDER_WAY = f"old = {MARK} planned {LEASE} {LOOK} BEAT( ) INTENT( )"
ALLOWED = {
    "nothing refers to it": f"old = {MARK} planned {LEASE} {LOOK} BEAT( ) {DELETED}",
    "it is staged": f"old =0 {MARK} unplanned",
    "it is committed": f"old =r {MARK} unplanned",
    "it may still be linked": f"young = {MARK} unplanned",
    "it is older than that, by less than clocks differ": f"recent = {MARK} unplanned",
    "it is staged before the look": (
        f"old = {MARK} planned =1 {LEASE} {LOOK} BEAT( ) REPORT( ) kept"
    ),
    "it is staged before a look that reads branches side by side": (
        f"old = {MARK} planned =01 {LEASE} SCAN( ) DIFF_0+DIFF_1( ) REFS( ) BEAT( ) REPORT( ) kept"
    ),
    "it is staged after the look": (f"old = {MARK} planned {LEASE} {LOOK} =1 BEAT( ) {DELETED}"),
    "it is staged on a branch that was read": (
        "old =1 CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) =0 DIFF_1( ) REFS( ) VERDICT( ) unplanned"
    ),
    "it is committed between its branch and refs": (
        "old =1 CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) DIFF_1( ) =r REFS( ) VERDICT( ) unplanned"
    ),
    "it is let go while refs are read": (
        "old =r CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) DIFF_1( ) REFS( = ) VERDICT( ) planned"
    ),
    "it is compacted below something newer": (
        "old =0c CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) DIFF_1( ) REFS+BELOW( ) VERDICT( ) unplanned"
    ),
    "it is compacted before the look": (
        f"old = {MARK} planned =1d {LEASE} SCAN( ) DIFF_0( ) DIFF_1( ) REFS+BELOW( ) BEAT( ) "
        "REPORT( ) kept"
    ),
    "it is compacted between the readings of two branches": (
        "old =0 CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) =0c DIFF_1( ) REFS+BELOW( ) =r VERDICT( ) "
        "unplanned"
    ),
    "killed before it is known what the request did, which went through": (
        f"{UNDER_WAY} REQUEST+LANDS( KILL {LEASE} {LOOK} BEAT( ) REPORT( ) deleted absent"
    ),
    "killed before it is known what the request did, which was not sent": (
        f"{UNDER_WAY} REQUEST+LANDS( KILL {LEASE} {LOOK} BEAT( ) {DELETED} absent"
    ),
    "killed, and nobody goes on: the object is there": f"{UNDER_WAY} REQUEST+LANDS( KILL there",
    "killed, and nobody goes on: the object is gone": f"{UNDER_WAY} REQUEST+LANDS( KILL absent",
    "killed once the outcome is written down": (
        f"{UNDER_WAY} REQUEST+LANDS( ) OUTCOME( KILL {LEASE} SCAN( ?) DIFF_0( ?) DIFF_1( ?) "
        "REFS( ?) BEAT( ?) REPORT( ) deleted absent"
    ),
    "refused to go on in a look": (
        f"old = {MARK} planned {LEASE} SCAN+DIFF_0+DIFF_1+REFS+BELOW+BEAT( there"
    ),
    "a policy names it": f"old =rp {MARK} planned =rp {LEASE} {LOOK} BEAT( ) {DELETED}",
    "a policy names it where it is staged": (
        f"old =0p {MARK} planned {LEASE} {LOOK} BEAT( ) {DELETED}"
    ),
    "a policy may name it, and does": f"old =rq {MARK} planned {LEASE} {LOOK} BEAT( ) {DELETED}",
    "a policy may name it, and does not": f"old =rq {MARK} unplanned",
    "a policy named it, and does so no more": (
        f"old =rp {MARK} planned =r {LEASE} {LOOK} BEAT( ) REPORT( ) kept"
    ),
    "a policy named it, does so no more, and nothing refers to it": (
        f"old =rp {MARK} planned = {LEASE} {LOOK} BEAT( ) REPORT( ) kept"
    ),
    "killed in a mark": "old =r CUTOFF( ) LIST( ) SCAN+DIFF_0+DIFF_1( KILL there",
}
REFUSED = {
    "deleted after a branch staged it": (
        f"old = {MARK} planned =1 {LEASE} {LOOK} BEAT( ) {DELETED}"
    ),
    "deleted although it was committed": (
        f"old = {MARK} planned =r {LEASE} {LOOK} BEAT( ) {DELETED}"
    ),
    "planned although it is staged": f"old =0 {MARK} planned",
    "planned although it was committed between its branch and refs": (
        "old =1 CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) DIFF_1( ) =r REFS( ) VERDICT( ) planned"
    ),
    "planned although it may still be linked": f"young = {MARK} planned",
    "planned although clocks may differ by that": f"recent = {MARK} planned",
    "not planned although nothing refers to it": f"old = {MARK} unplanned",
    "kept although nothing refers to it": (
        f"old = {MARK} planned {LEASE} {LOOK} BEAT( ) REPORT( ) kept"
    ),
    "a request without a look": f"old = {MARK} planned {LEASE} BEAT( ) {DELETED}",
    "a request before its look": (
        f"old = {MARK} planned {LEASE} BEAT( ) INTENT( ) REQUEST+LANDS( ) {LOOK} "
        "OUTCOME( ) REPORT( ) deleted"
    ),
    "a request before it is written down": (
        f"old = {MARK} planned {LEASE} {LOOK} BEAT( ) REQUEST+LANDS( ) INTENT( ) "
        "OUTCOME( ) REPORT( ) deleted"
    ),
    "a request without a lease": f"old = {MARK} planned {LOOK} BEAT( ) {DELETED}",
    "a second request": (
        f"old = {MARK} planned {LEASE} {LOOK} BEAT( ) INTENT( ) REQUEST+LANDS( ) OUTCOME( ) "
        "INTENT( ) REQUEST+LANDS( ) OUTCOME( ) REPORT( ) deleted"
    ),
    "a look before the verdict": (
        "old = CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) DIFF_1( ) REFS( ) "
        f"{LEASE} {LOOK} VERDICT( ) planned BEAT( ) {DELETED}"
    ),
    "commits read before what is staged": (
        "old = CUTOFF( ) LIST( ) REFS( ) SCAN( ) DIFF_0( ) DIFF_1( ) VERDICT( ) planned"
    ),
    "planned although a branch has compacted it": (
        "old =0c CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) DIFF_1( ) REFS+BELOW( ) VERDICT( ) planned"
    ),
    "tables of branches that were not read": f"old =0c {MARK} unplanned",
    "deleted although a branch compacted it before the look": (
        f"old = {MARK} planned =0c {LEASE} SCAN( ) DIFF_0( ) DIFF_1( ) REFS+BELOW( ) BEAT( ) "
        f"{DELETED}"
    ),
    "gone although it was killed before the request": f"{UNDER_WAY} KILL absent",
    "there although the request was answered": f"{UNDER_WAY} REQUEST+LANDS( ) KILL there",
    "gone on without a look after a kill": (f"{UNDER_WAY} KILL {LEASE} BEAT( ) {DELETED} absent"),
    "gone on after a kill although a branch staged it since": (
        f"{UNDER_WAY} KILL =1 {LEASE} {LOOK} BEAT( ) {DELETED} absent"
    ),
    "reported as kept although the request may have gone through": (
        f"{UNDER_WAY} REQUEST+LANDS( KILL {LEASE} {LOOK} BEAT( ) REPORT( ) kept absent"
    ),
    "gone in a mark that refused to go on": "old = CUTOFF( ) LIST( ) SCAN+DIFF_0( absent",
    "gone in a sweep that refused to go on": (
        f"old = {MARK} planned {LEASE} SCAN+DIFF_0+DIFF_1+REFS+BELOW+BEAT( absent"
    ),
    "gone in a mark that was killed": "old = CUTOFF( ) LIST( ) SCAN( KILL absent",
    "let go although no policy names it": f"old =r {MARK} planned",
    "let go by a policy although it may still be linked": f"young =rp {MARK} planned",
    "left although a policy surely names it": f"old =rp {MARK} unplanned",
    "a policy names it after refs were read": (
        "old =r CUTOFF( ) LIST( ) SCAN( ) DIFF_0( ) DIFF_1( ) REFS( ) =rp VERDICT( ) planned"
    ),
    "deleted although no policy names it any more": (
        f"old =rp {MARK} planned =r {LEASE} {LOOK} BEAT( ) {DELETED}"
    ),
    "deleted although the policy ended, and nothing refers to it": (
        f"old =rp {MARK} planned = {LEASE} {LOOK} BEAT( ) {DELETED}"
    ),
    "deleted as nothing referred to it, although that was by no policy": (
        f"old = {MARK} planned =rp {LEASE} {LOOK} BEAT( ) {DELETED}"
    ),
    "kept although a policy surely names it still": (
        f"old =rp {MARK} planned {LEASE} {LOOK} BEAT( ) REPORT( ) kept"
    ),
    "a listing before the cutoff": (
        "old = LIST( ) CUTOFF( ) SCAN( ) DIFF_0( ) DIFF_1( ) REFS( ) VERDICT( ) planned"
    ),
}


def _word(letters: str) -> replay.Word:
    return tuple(letters.split())


# One of each guard that stands at the end of a run: what is staged, young, looked at and written
# down, compacted, and of a kill; the other words repeat them elsewhere.
FEW = (
    "it is staged before the look",
    "it is committed",
    "it may still be linked",
    "deleted after a branch staged it",
    "planned although it may still be linked",
    "a request before it is written down",
    "a listing before the cutoff",
    "it is compacted between the readings of two branches",
    "planned although a branch has compacted it",
    "killed before it is known what the request did, which went through",
    "gone although it was killed before the request",
    "gone in a mark that refused to go on",
    "a policy names it",
    "let go although no policy names it",
    "deleted although no policy names it any more",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [FEW, pytest.param((*ALLOWED, *REFUSED), marks=pytest.mark.slow)],
    ids=["few", "all"],
)
def test_the_model_goes_through_what_it_allows_and_through_nothing_else(names):
    said = {_word({**ALLOWED, **REFUSED}[name]): name for name in names}
    refused = replay.refused(said)
    assert sorted(said[word] for word in refused) == sorted(set(REFUSED) & set(names))


@pytest.mark.parametrize("letters", [f"= {MARK}", f"old = {MARK} perhaps", f"old = NAP( ) {MARK}"])
def test_what_is_no_word_is_not_replayed(letters):
    with pytest.raises(ValueError, match=r"no age first|unknown letter|not in tuple"):
        replay.refused({_word(letters)})


def test_a_forbidden_history_is_told():
    with pytest.raises(AssertionError, match="the model forbids:\nold =0 CUTOFF"):
        replay.require_allowed({_word(REFUSED["planned although it is staged"])})
