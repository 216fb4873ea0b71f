"""Break the code on purpose, in a copy of the tree, and see which test fails.

`python -m tests.mutations` plays the mutations in `promises`, which were written by hand. `sample` draws random ones.
"""
