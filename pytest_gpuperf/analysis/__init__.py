"""Pure numbers: from samples to what they say of one test, of several tests, and of several runs.

Of one test: the `noise` in its samples, the `estimation` of its speedup, the `looks` at which that is
decided, the `verdict` on a demand, whether to `offload`, and the `diagnosis` of its bottlenecks. Of the sizes
of a workload: the `threshold`; of numbers of devices: the `scaling`; of runs: the `changepoint`.
"""
