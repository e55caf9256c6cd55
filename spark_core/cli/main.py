"""The commands of `lakegc`; heavy libraries are imported only by the commands that need them.

Exit codes: 0 done, 1 failed, 2 wrong settings or usage, 3 refused, 130 ended by Ctrl-C.
"""

from __future__ import annotations

import atexit
import gc

import click

from lakegc_dagster.cli.demo import demo, warm_up
from lakegc_dagster.cli.ui import ui
from spark_core import __version__
from spark_core.cli.certificate import certificate, verify
from spark_core.cli.collect import mark, run, sweep
from spark_core.cli.config import config
from spark_core.cli.confirm import confirm
from spark_core.cli.doctor import doctor
from spark_core.cli.erase import erase
from spark_core.cli.explain import explain
from spark_core.cli.groups import Lakegc
from spark_core.cli.holds import hold
from spark_core.cli.init import init
from spark_core.cli.metrics import metrics
from spark_core.cli.notify import notify
from spark_core.cli.report import report
from spark_core.cli.restore import restore
from spark_core.cli.retention import retention
from spark_core.cli.rules import rules
from spark_core.cli.runs import runs, status
from spark_core.cli.what_if import what_if

# The objects of imported libraries stay. With Python's default of 700, a quarter of their import
# time goes to the garbage collector.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000


@click.group(
    cls=Lakegc,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="lakegc")
def main() -> None:
    """Collect the garbage of lakeFS repositories: find it, show it, prove it, delete it.

    \b
    Examples:
      lakegc demo                     watch a whole collection on a sandbox
      lakegc doctor my-repo           check everything that a run needs
      lakegc mark my-repo             find what may go; deletes nothing
      lakegc run                      the nightly run over every repository
      lakegc report my-repo           show the last run again
      lakegc explain my-repo ADDRESS  why an object is kept, may go, or is gone
      lakegc what-if my-repo          what other rules would let go
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # At its end Python would look through all of them once more, for half a second.
    atexit.register(gc.freeze)


# As `groups.TASKS` has them.
for command in (
    *(demo, init, config, doctor, warm_up),
    *(mark, run, sweep, confirm),
    *(status, runs, report, explain, what_if, ui),
    *(hold, restore),
    *(rules, retention, erase),
    *(certificate, verify),
    *(notify, metrics),
):
    main.add_command(command)


if __name__ == "__main__":
    main()
