"""`python -m pytest_gpuperf`: the command `gpuperf`."""

import sys

from pytest_gpuperf.cli import main

if __name__ == "__main__":
    sys.exit(main())
