"""One pytest run, from its first measured test to its files."""
