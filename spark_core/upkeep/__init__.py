"""Delete what nobody needs any more: lakegc's old tables, and objects past their quarantine days.

This package marks nothing.
"""
