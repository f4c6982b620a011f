"""The gallery is one suite; existing_suite and keras_networks, which need options or Keras, run by themselves."""

collect_ignore = ["existing_suite", "keras_networks"]
