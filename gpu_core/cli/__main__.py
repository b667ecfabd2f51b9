"""`python -m gpu_core.cli`."""

import sys

from gpu_core.cli.main import main

sys.exit(main())
