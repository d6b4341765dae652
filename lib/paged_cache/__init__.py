"""Keys and values in blocks of fixed size: who holds which block, what is shared, and the tensors themselves."""
