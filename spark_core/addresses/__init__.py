"""What an address is, and what may ever go: names, slices, hashes, and the rule of candidates.

Knows nothing of stores, servers or runs.
"""
