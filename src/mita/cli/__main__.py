"""`python -m mita.cli`."""

import sys

from . import main

sys.exit(main())
