"""The page of all repositories: what it says, and what it leaves to nobody's eyes."""

from dataclasses import replace

from spark_core.report.fleet import FleetRow, fleet_page
from spark_core.report.status import RepositoryStatus
from tests.support.fleet import GB, NOW, fleet_row, past_run, refused_run

IN_ORDER = fleet_row("lake", [past_run(ago, gone=2 * GB) for ago in range(3)])
REFUSED = fleet_row("models", [refused_run(), past_run(1)])
OVERDUE = fleet_row("raw", [past_run(9)])
UNKNOWN = FleetRow(RepositoryStatus("archive", problem="the store refuses <b>(403)</b>."))
FLEET = [IN_ORDER, REFUSED, OVERDUE, UNKNOWN]


def test_it_begins_with_how_many_need_a_person():
    assert "3 of 4 repositories need a person" in fleet_page(FLEET, now=NOW)
    assert "No repository needs a person" in fleet_page([IN_ORDER], now=NOW)
    assert "1 of 1 repository needs a person" in fleet_page([UNKNOWN], now=NOW)


def test_each_that_needs_a_person_has_its_sentence_and_the_way_on():
    page = fleet_page(FLEET, now=NOW)
    assert page.count('class="finding') == 3
    assert "<code>lakegc confirm models expired_share_is_plausible --run 2026-11-20T0" in page
    assert "ended 9.2 days ago, and the longest pause of the schedule is 24 hours." in page
    assert "the store refuses &lt;b&gt;(403)&lt;/b&gt;." in page


def test_totals_are_those_of_all_and_money_goes_by_the_price_of_each():
    page = fleet_page(FLEET, now=NOW)
    assert "8.0 GB reclaimed in 30 days, 8.0 GB in all; 60.0 GB waiting." in page
    # 6 GB of one and a GB each of two others, at 0.023.
    assert "8,000 objects reclaimed in all · 0.18 a month saved" in page
    other = fleet_row("raw", [past_run(9)], price=None)
    assert "8,000 objects reclaimed in all · 0.16 a month saved" in fleet_page(
        [IN_ORDER, REFUSED, other], now=NOW
    )
    assert "a month" not in fleet_page([other], now=NOW)


def test_nothing_is_saved_as_long_as_it_lies_in_quarantine():
    aside = past_run(0, gone=1000 * GB, in_quarantine=(10**6, 1000 * GB))
    page = fleet_page([fleet_row("lake", [aside])], now=NOW)
    assert "1.0 TB</b>1,000,000 objects reclaimed in all · 0.00 a month saved" in page
    assert "1.0 TB</b>1,000,000 objects in quarantine · 23.00 a month<" in page
    assert 'data-name="saved a month" data-v="0.0">0.00</td>' in page


def test_the_days_before_show_the_trend():
    page = fleet_page([fleet_row("lake", [past_run(1), past_run(40, gone=2 * GB)])], now=NOW)
    assert "objects reclaimed in the 30 days before · 0.05 a month saved" in page
    assert "reclaimed in the 30 days before" not in fleet_page(FLEET, now=NOW)


def test_it_says_where_older_sweeps_may_be_missing():
    status = replace(IN_ORDER.status, lately_is_whole=False)
    assert "At least 6.0 GB reclaimed" in fleet_page([FleetRow(status)], now=NOW)


def test_each_day_is_a_column_and_each_repository_a_line():
    page = fleet_page(FLEET, now=NOW)
    assert "<title>2026-11-20: 2.0 GB</title>" in page
    assert "<title>2026-11-19: 3.0 GB</title>" in page
    assert "102.0 GB to 102.0 GB in 3 marks" in page


def test_names_lead_to_the_server_if_it_is_known():
    url = "https://lakefs.example.com/repositories/lake/objects"
    assert url in fleet_page(FLEET, now=NOW, server="https://lakefs.example.com")
    assert "<a " not in fleet_page(FLEET, now=NOW)
