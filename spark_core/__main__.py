"""`python -m spark_core`: the commands of `lakegc`."""

from spark_core.cli.main import main

if __name__ == "__main__":
    main()
