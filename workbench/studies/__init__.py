"""What the study notebooks call: sweeps of one lever, their tables and pictures."""
