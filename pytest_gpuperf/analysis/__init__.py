"""Pure numbers: samples to evidence, estimates, verdicts and diagnoses."""
