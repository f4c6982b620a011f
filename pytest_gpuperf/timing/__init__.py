"""One test measured on its devices, without pytest."""
