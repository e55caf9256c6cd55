"""The index: what was read of things that never change, kept for later runs in few files.

A range never changes under its id, nor does a metarange; a closed slice hardly ever does. So a run
takes their content from the index, lists and reads the rest, and decides about everything by the
one algorithm. The index may keep an object. It never proves that one exists, or is unchanged.

- `slices-...`: rows of table 1 of closed slices; `gone-...`: numbers of their rows that are left
  out;
- `trees-...`: metaranges and their ranges; `ranges-...`: ranges, and where their entries lie;
  `entries-...`: these entries in numbers, some 25 bytes for each.

A run's saved document names the files by their hashes, and its verdict names the document. A file
that is missing, damaged or of another version is a miss: the run reads everything. This package
knows nothing of how a table is made, and decides about no object.
"""
