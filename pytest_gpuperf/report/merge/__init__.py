"""Reports of several runs merged to one."""
