"""What a person asks of each asset, as its first metadata: a headline, figures, tables, the page.

The engine's own counters stand below them.
"""

from lakegc_dagster.headlines.of_repositories import of_repositories as of_repositories
from lakegc_dagster.headlines.of_repositories import of_what_if as of_what_if
from lakegc_dagster.headlines.of_runs import of_a_run as of_a_run
from lakegc_dagster.headlines.of_runs import of_house_keeping as of_house_keeping
from lakegc_dagster.headlines.of_runs import of_mark as of_mark
from lakegc_dagster.headlines.of_runs import of_not_swept as of_not_swept
from lakegc_dagster.headlines.of_runs import of_policy as of_policy
from lakegc_dagster.headlines.of_runs import of_verdict as of_verdict
from lakegc_dagster.headlines.of_stored_runs import of_concluded as of_concluded
from lakegc_dagster.headlines.of_stored_runs import of_table_of_run as of_table_of_run
from lakegc_dagster.headlines.of_tables import of_stored as of_stored
from lakegc_dagster.headlines.of_tables import of_table as of_table
from lakegc_dagster.headlines.words import escaped as escaped
