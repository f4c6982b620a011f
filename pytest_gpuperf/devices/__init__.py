"""CPU and GPU backends, and the machine that they run on."""
