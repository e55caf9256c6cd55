"""Measurements: `make bench` runs `decoder` and `mark`; `make bench-large` runs `large`.

Nothing of the product imports this package.
"""
