"""Mutants: the product with one fault in it, made mechanically at every site. A suite that passes one has a hole."""
