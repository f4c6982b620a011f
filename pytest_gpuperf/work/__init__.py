"""What is measured: the work of a test on one device, and whether it was the required work."""
