"""The gallery is one suite; existing_suite (own options) and keras_networks (Keras) run by themselves."""

collect_ignore = ["existing_suite", "keras_networks"]
