"""Other pytest plugins and unittest, one file each."""
