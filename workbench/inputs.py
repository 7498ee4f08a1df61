"""Random inputs for a problem: query, paged cache, block table, biases. Values depend on the seed alone."""
