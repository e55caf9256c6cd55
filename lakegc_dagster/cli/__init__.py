"""The command line `lakegc`: a module for each group of commands, all of them put together in `main`."""
