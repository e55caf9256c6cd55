"""The command line `lakegc`: one module for each group of commands, put together in `main`.

It must not decide what may go: it reads the settings, calls the engine and shows what it says.
"""
