"""The evidence of a run as a folder: written whole, judged again by anybody, compared with another.

A package has *raw* files, which say what was asked for and what was seen, and *derived* files, which follow from them:
verdicts, ladder, JUnit, report. :func:`~tutti_hal.conformance_tests.package.evidence.texts` makes the derived ones;
`verify` calls the same function on the raw ones and compares byte for byte. README.md beside this file says what that
proves, and what it does not.
"""
