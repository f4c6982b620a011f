"""Run -> text, one module per form."""
