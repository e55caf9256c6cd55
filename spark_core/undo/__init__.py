"""Bring back what a sweep deleted, and prove that it is there.

This package decides nothing about what may go.
"""
