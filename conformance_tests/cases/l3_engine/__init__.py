"""L3: whatever runs the kernels runs every thread, and a simulation schedules, bounds and repeats them as it says."""
