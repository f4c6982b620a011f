"""The report as a page: one HTML file that people open, with figures in SVG that need no script."""
