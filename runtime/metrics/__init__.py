"""The numbers of a run for other programs: their names, and Prometheus' text of them."""
