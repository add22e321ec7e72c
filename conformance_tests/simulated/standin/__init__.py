"""Stand-ins for vendors' compilers: their flags, macros and refusals over g++ and the HOST engine."""
