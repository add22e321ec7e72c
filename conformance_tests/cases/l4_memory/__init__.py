"""L4: what threads, hosts and devices see of each other's words, as litmus shapes with twins that must be noticed."""
