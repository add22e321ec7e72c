"""The software controller and the host half of NVMe, held against the text of the specification."""
