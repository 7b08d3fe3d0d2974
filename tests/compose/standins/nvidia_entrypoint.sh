#!/bin/bash
# Stand-in for the image's entrypoint, with its contract: a banner, then a shell or the given command.
echo "=== stand-in for NVIDIA's image: Triton 2.51.0, CPU only ==="
if [ $# -eq 0 ]; then exec /bin/bash; fi
exec "$@"
