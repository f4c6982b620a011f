"""What all forms of a report say of a run, by subject: they lay it out."""
