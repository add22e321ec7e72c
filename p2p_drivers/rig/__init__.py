"""The rig: real kernels in QEMU, their own NVMe driver, and the module under test. See README.md."""
