"""Optimized runs: the base that one begins from, what a mark saves, candidates, and the audit.

A candidate is decided as in a full run. Only what cannot have become a candidate is not read. This
package knows nothing of how a table is made.
"""
