"""Loop over table blocks in compiled code: offsets, keys, values and protobuf fields.

Every loop checks each length against the end of the block, value or message before it reads,
because a file may be broken or hostile although its checksums fit. No loop raises: it returns a
status and the position in the buffer where it stopped, and the caller names the file and the
offset.

The files here import nothing of the project but each other and `jit`, which keeps compiled code
only as long as none of them changes.
"""
