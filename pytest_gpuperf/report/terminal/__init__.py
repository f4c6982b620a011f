"""The report as lines of a terminal: the section at the end of a run, and what commands print."""
