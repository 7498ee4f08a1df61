"""Search of specs: a declared space is compiled, pruned, checked and timed; the winners go to the dispatcher."""
