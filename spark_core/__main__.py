"""`python -m spark_core`: the engine as a program."""

import sys

from spark_core.command import main

if __name__ == "__main__":
    sys.exit(main())
