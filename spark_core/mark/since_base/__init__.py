"""An optimized run's own steps: what changed since its base, what it saves, and the audit.

This package does not decide whether a run is optimized, and nothing about a candidate.
"""
