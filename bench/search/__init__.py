"""Whether search through our proposals is the search of Optuna. `make bench-search` prints the table."""
