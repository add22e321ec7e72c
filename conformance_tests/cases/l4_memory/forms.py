"""What the kernels of litmus forms are like, as the templates have it. No case is here."""

from __future__ import annotations

from tutti_hal.conformance_tests.cases.l4_memory.shapes import FORMS, SHAPES

#: The kernel set of forms between threads, and of those with a partner outside the device.
THREADS, DOORBELLS = "litmus", "litmus_doorbell"
#: Of a simulated world: seeds within which a twin shows its weak outcome.
SEEDS = 4000
#: Words of an instance's notes, and the one that counts roles that met.
NOTES, MET = 8, 7

_ROLES = {"isa2": 3}


def registers(form: str) -> int:
    """How many numbers an outcome of a form has."""
    return len(SHAPES[FORMS[form][0]].noted)


def roles(form: str) -> int:
    """How many threads play an instance of a form."""
    return _ROLES.get(FORMS[form][0], 2)


def within(form: str) -> bool:
    """Whether a form's roles are parts of one block."""
    return "within" in form or "barrier" in form


def cell_bytes(form: str) -> int:
    """The size of a form's first word: a cell of four, or a word."""
    return 16 if "tear" in form else word_bytes(form)


def word_bytes(form: str) -> int:
    """The size of its other words."""
    return 8 if form.endswith("u64") else 4


def is_register(form: str) -> bool:
    """Whether a form's first word is a register: a word that the host maps, and that threads take turns to store."""
    return form.startswith("tail")


def is_modified(form: str) -> bool:
    """Whether a form takes its flag, or the last word of a completion, by a read-modify-write."""
    return not {"add", "exchange", "or", "cas"}.isdisjoint(form.split("_"))


def flag_is_modified(form: str) -> bool:
    """Whether a form reads, modifies and writes its second word: surely indivisible in a device's own memory alone."""
    return is_register(form) or is_modified(form)


#: Each word of an entry that a thread wrote.
WORD = 0x10001

#: What a shape is, of each group of forms.
SHAPE_OF = {
    "submit": "entry",
    "leader": "entry",
    "complete": "data",
    "phase": "phase",
    "tell": "mp",
    "wakeup": "sb",
    "recycle": "war",
}


def group(form: str) -> str:
    """What a form with a partner is a form of."""
    return form.partition("_")[0]
