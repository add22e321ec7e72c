"""The suite by which vendors certify a port.

Its frame (cases, verdicts, mutants, evidence) is the next milestone: nothing here runs yet, no product is
certified.
What proves the code today is in ``tests/``.
"""
