"""What scripts/doctor.py looks at, one module per subject; every check returns findings.

Nothing here changes anything. ``CONFIGURATION`` needs the repository's files only; ``HOST`` also
asks Docker, the GPU driver and the network of this machine.
"""
