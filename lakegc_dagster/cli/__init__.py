"""The commands of `lakegc` that need Dagster or the sandbox: `ui` and `demo`."""
