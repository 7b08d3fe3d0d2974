"""What scripts/doctor.py looks at, one module per subject; every check returns findings.

Nothing here changes anything. ``CONFIGURATION`` needs the repository's files only; ``HOST`` also
asks Docker, the GPU driver and the network of this machine.
"""

import sys
from pathlib import Path

# embedded/ is not installed; its flags and preflight are read from the checkout.
sys.path.append(str(Path(__file__).resolve().parents[2]))
