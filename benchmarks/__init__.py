"""Measurements: `make bench` runs `decoder` and `mark`; `make bench-large` runs `large`."""
