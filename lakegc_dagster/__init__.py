"""The Dagster code location: names, wiring, metadata, schedule and command line, no computing."""
