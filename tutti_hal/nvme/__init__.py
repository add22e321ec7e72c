"""NVMe: the wire format, and the host's half of a controller's life.

The codecs (`registers`, `sqe`, `cqe`, `commands`, `identify`, `namespace`, `features`, `status`, `prp`, `sgl`,
`opcodes`) turn bytes into frozen dataclasses and back; `handle` brings a controller up and creates its queues.
Importing this package imports none of them.
"""
