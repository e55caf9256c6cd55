"""The collector's metrics, for a node exporter, a push gateway or a person.

They say what the store already has, and nothing is computed for them.
"""
