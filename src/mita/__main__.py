"""`python -m mita`: the same as `mita`."""

import sys

from mita.cli import main

sys.exit(main())
