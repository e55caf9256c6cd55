"""Runs that Dagster starts elsewhere: on a cluster, or in another process of this machine.

- `entry`: what works there; it knows the engine and `dagster_pipes`, and no Dagster
- `launched`: the assets here, made by what the entry tells
- `launchers`: how a settings file has it started
- `payloads`: the same entry for the Pipes clients of Databricks, EMR and Glue
"""
