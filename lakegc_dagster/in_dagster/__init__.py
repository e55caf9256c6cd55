"""What Dagster keeps and shows of runs: failures, events, pools, and doors past its interface."""
