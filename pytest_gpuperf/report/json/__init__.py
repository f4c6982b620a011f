"""Reports, journals and histories as JSON: text that the types of the values prove."""
