"""The suite by which vendors certify a port: cases, verdicts, mutants, evidence.

A vendor runs it from its own repository: as ``tutti-hal certify``, through the pytest plugin, or as a library.
"""
