"""What the export scripts share: weights, the served graph, parity checks. Needs PyTorch."""
