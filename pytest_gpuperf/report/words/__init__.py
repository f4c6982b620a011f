"""The text of a report: one module words each fact; terminal, Markdown, page and exports lay it out."""
