"""Gluon kernels for gfx950: layouts, LDS, copies and waits are chosen here instead of by the compiler."""
