"""``python -m model_zoo.build DIR``: the builder under the shorter name."""

import sys

from model_zoo.builder import main

if __name__ == "__main__":
    sys.exit(main())
