"""A run compared with an earlier one: what regressed, what is comparable, what fails."""
