"""The lease on a namespace: one collector at a time.

Knows nothing of what its holder does.
"""
