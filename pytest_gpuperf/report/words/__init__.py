"""What a reader is told of a run, each fact worded in one place; the forms of a report lay it out."""
