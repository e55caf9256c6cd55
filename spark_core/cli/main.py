"""The commands of `lakegc`; each imports what it needs once it is asked for.

Exit codes: 0 done, 1 failed, 2 wrong settings or usage, 3 refused, 130 ended by Ctrl-C.
"""

from __future__ import annotations

import atexit
import gc

import click

from spark_core import __version__
from spark_core.cli.groups import CommandsByName, Lakegc

# The objects of imported libraries stay. With Python's default of 700, a quarter of their import
# time goes to the garbage collector.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000


@click.group(
    cls=Lakegc,
    commands=CommandsByName(),
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


if __name__ == "__main__":
    main()
