"""A run compared with an earlier one: what regressed, what is comparable, what fails.

From a record to its `metrics`; two values of one are a `regression` or none, if their `fingerprint` is the
same: so a record is compared with its `baseline`. What the baseline holds and a run lacks is `absent`. The
`gate` asks all of it, `what_fails` says that, and `text` words it. `tolerance` reads what is allowed, and
`update` makes the next baseline.
"""
