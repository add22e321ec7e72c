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


class PackageInTheWay(ConformanceError):
    """The folder for a package holds something that will not be replaced."""

    id = "TT-CONFORMANCE-PACKAGE-IN-THE-WAY"


class PackageUnwritable(ConformanceError):
    """A package could not be written; nothing of it is left."""

    id = "TT-CONFORMANCE-PACKAGE-UNWRITABLE"


class NothingToResume(ConformanceError):
    """A run that was to go on has left no journal, or one of other options or another product."""

    id = "TT-CONFORMANCE-NOTHING-TO-RESUME"


class NotAPackage(ConformanceError):
    """A folder that was to be verified or compared is not a package. ``verify`` and ``compare`` leave with 2."""

    id = "TT-CONFORMANCE-NOT-A-PACKAGE"


class FiguresUnfit(ConformanceError):
    """A file is no figure of a benchmark that this run could carry. ``certify`` leaves with 2."""

    id = "TT-CONFORMANCE-FIGURES-UNFIT"


class KeyUnfit(ConformanceError):
    """A file is not the key that it must be. ``sign`` and ``verify`` leave with 2."""

    id = "TT-CONFORMANCE-KEY-UNFIT"


class SigningUnavailable(ConformanceError):
    """The library that signs is not installed. ``sign`` and ``verify --signer`` leave with 2."""

    id = "TT-CONFORMANCE-SIGNING-UNAVAILABLE"


class SignatureInvalid(ConformanceError):
    """A package is not signed as was asked for: ``verify --signer`` refuses it."""

    id = "TT-CONFORMANCE-SIGNATURE"


class SignatureMissing(SignatureInvalid):
    """There is no signature beside the package, or the file is none."""

    id = "TT-CONFORMANCE-SIGNATURE-MISSING"


class SignatureOfAnother(SignatureInvalid):
    """The signature is of another manifest."""

    id = "TT-CONFORMANCE-SIGNATURE-OF-ANOTHER"


class SignatureBad(SignatureInvalid):
    """None of the named keys made the signature."""

    id = "TT-CONFORMANCE-SIGNATURE-BAD"


class WaiversInvalid(ConformanceError):
    """A waiver file is wrong; all of it is listed with file and line."""

    id = "TT-CONFORMANCE-WAIVERS-INVALID"


class WaiverExpired(ConformanceError):
    """A waiver's last day is over."""

    id = "TT-CONFORMANCE-WAIVER-EXPIRED"


class DriveSilent(ConformanceError):
    """A drive does not answer the suite's own host, or not as it must for a case to begin: the case fails."""

    id = "TT-CONFORMANCE-DRIVE-SILENT"


class AblationUnknown(ConformanceError):
    """No ablation has that name."""

    id = "TT-CONFORMANCE-ABLATION-UNKNOWN"


class AblationEmpty(ConformanceError):
    """An ablation takes nothing away from this vendor."""

    id = "TT-CONFORMANCE-ABLATION-EMPTY"


class MachineUnknown(ConformanceError):
    """No class of machines has that name."""

    id = "TT-CONFORMANCE-MACHINE-UNKNOWN"


class MutantsInvalid(ConformanceError):
    """A table of mutants, or a mutant, is not what it must be."""

    id = "TT-CONFORMANCE-MUTANTS-INVALID"


class BaselineRed(ConformanceError):
    """The product itself does not pass the cases that its mutants are measured with."""

    id = "TT-CONFORMANCE-MUTANTS-BASELINE"


class ReplayInvalid(ConformanceError):
    """A file is no replay file of a campaign."""

    id = "TT-CONFORMANCE-REPLAY-INVALID"


class BaselineInvalid(ConformanceError):
    """A file is no baseline of what kernels need."""

    id = "TT-CONFORMANCE-BASELINE-INVALID"
