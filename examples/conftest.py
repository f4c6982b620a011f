"""The gallery is one suite; existing_suite has its own options and keras_networks needs Keras: both run alone."""

collect_ignore = ["existing_suite", "keras_networks"]
