"""When runs start by themselves: nightly schedules, the sensor of repositories, freshness."""
