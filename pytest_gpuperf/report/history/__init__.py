"""The results of many runs: a folder with a small file for each, and each test's series in it."""
