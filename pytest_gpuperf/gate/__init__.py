"""A run compared with an earlier one: what regressed, what is comparable, what fails.

From a record to its `metrics`; two values of one are a `regression` or none, if their `fingerprint` is the
same: so a record is compared with its `baseline`, which also says what it holds and a run lacks. The
`gate` asks all of it, `what_fails` has the rules, and `text` words it. `tolerance` reads what is allowed, and
`update` makes the next baseline.
"""
