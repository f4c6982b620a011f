"""The report as Markdown, for comments on pull requests and the summaries of CI's jobs."""
