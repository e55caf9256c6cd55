"""Optimized runs: the base that one begins from, and what a mark saves for the next.

A candidate is decided as in a full run. Only what cannot have become a candidate is not read. This
package knows nothing of how a table is made.
"""
