"""The Dagster code location: names, wiring, metadata and schedule, no computing.

What the engine decides and how is unknown here: assets call one engine function each.
"""
