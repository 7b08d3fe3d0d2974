"""What scripts/verify_gpu.py proves on a GPU host, and how it asks the running server."""
