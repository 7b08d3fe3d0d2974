"""What scripts/soak.py is made of: ``corpus`` what is sent · ``clients`` who sends it and what
came back · ``watch`` memory and processes meanwhile · ``verdict`` what must be true afterwards."""
