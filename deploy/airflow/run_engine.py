"""What `spark-submit` starts: the engine as a program, with its arguments (docs/engine.md)."""

import sys

from spark_core.command import main

if __name__ == "__main__":
    sys.exit(main())
