"""Campaigns: random workloads with random faults, judged by a reference model that knows the contract's text alone.

``steps`` says what a workload is made of, ``workload`` draws one from a seed, ``executor`` carries it out on a rig,
``model`` judges what was seen, ``shrink`` makes a failing workload small, ``session`` runs many of them.
"""
