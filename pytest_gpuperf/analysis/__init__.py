"""Pure numbers: samples to stretches, looks, verdicts and diagnoses."""
