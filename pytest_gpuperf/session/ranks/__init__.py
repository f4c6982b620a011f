"""The processes of one launch that run the same tests: what each does, how they meet and what they say."""
