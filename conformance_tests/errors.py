"""Errors of the suite, in the product's tree."""

from __future__ import annotations

from tutti_hal.errors import TuttiError


class ConformanceError(TuttiError):
    """The suite could not do what it was asked for. ``certify`` leaves with 2."""

    id = "TT-CONFORMANCE"


class CaseUnknown(ConformanceError):
    """No case has that id."""

    id = "TT-CONFORMANCE-CASE-UNKNOWN"


class CasesInvalid(ConformanceError):
    """A module of cases does not load, or a case contradicts the contract."""

    id = "TT-CONFORMANCE-CASES-INVALID"


class ControllerMutationUnknown(ConformanceError):
    """No controller mutation has that name."""

    id = "TT-CONFORMANCE-CONTROLLER-MUTATION-UNKNOWN"
