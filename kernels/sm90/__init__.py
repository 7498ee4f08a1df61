"""Kernels in Gluon for Hopper."""
