"""The gallery is one suite; existing_suite (own options), keras_networks and ranks run by themselves."""

collect_ignore = ["existing_suite", "keras_networks", "ranks"]
