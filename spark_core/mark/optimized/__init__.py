"""Optimized runs: what changed since a base run, and what that lets go.

A candidate is decided as in a full run. Only what cannot have become a candidate is not read.
"""
