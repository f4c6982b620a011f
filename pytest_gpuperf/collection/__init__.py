"""Which pytest items are speedup tests, and what each requires."""
