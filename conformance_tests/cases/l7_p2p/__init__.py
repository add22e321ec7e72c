"""L7: a drive beside the kernel's own driver. Only on a machine that gives a drive away (`beside.GIVEN`)."""
