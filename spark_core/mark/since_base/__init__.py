"""Table 4 of an optimized run: what changed since its base, and which candidates that leaves.

This package does not decide whether a run is optimized, and nothing about a candidate.
"""
