"""Resolve physical addresses, hash them, and decide which objects can be candidates.

This package knows nothing of stores, servers or runs.
"""
