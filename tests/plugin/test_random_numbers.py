"""Results that differ because of random numbers are said to."""

TEST = """
@pytest.mark.speedup(min=3)
def test_{name}(device):
    {setup}
    def call():
        device.launch(10e-3 if device.kind == "cpu" else 1e-3)
        return {result}
    return call
"""
SEEDED = "np.random.seed(0); x = np.random.rand()"
DRAWN = "from NumPy's generator: "
CASES = {  # the setup, the result, and what is said of it
    "one_device": ("", "np.random.rand() if device.kind == 'cpu' else 2.0", f"{DRAWN}draw them"),
    "call": ("", "np.random.rand()", f"the call draws random numbers {DRAWN}"),
    "setup": ("x = np.random.rand()", "x", f"each device, {DRAWN}seed it"),
    "own": ("g = random.Random(1)", "g.random()", "from a Random that it refers to: draw them before"),
    "other": (SEEDED, "x + (device.kind == 'gpu')", "make the same values on both devices"),
    "seeded_draws": ("np.random.seed(0)", "np.random.rand() * 0", None),
    "seeded": (SEEDED, "x", None),
}


def test_the_generator_is_named_where_random_numbers_differ_and_nowhere_else(suite):
    tests = (TEST.format(name=name, setup=setup, result=result) for name, (setup, result, _) in CASES.items())
    found = suite("import random\nimport numpy as np\n" + "".join(tests))
    for name, (_, _, said) in CASES.items():
        record = found.records[f"test_{name}"]
        assert (record["status"] == "passed") == (said is None)
        assert said is None or record["status"] in ("failed", "error")
        assert said is None or said in record["reason"]
        is_other = name == "other"
        assert is_other == ("make the same values on both devices" in (record["reason"] or ""))
        assert not (is_other and "random numbers" in record["reason"])
