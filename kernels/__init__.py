"""Device code. Nothing here imports torch or the host side of the workbench."""
