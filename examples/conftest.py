"""The gallery is one suite; existing_suite is another, with its own options, and runs by itself."""

collect_ignore = ["existing_suite"]
