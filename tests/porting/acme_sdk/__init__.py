"""The simulated SDK of Acme, a vendor that does not exist: what the tutorial of porting is played with."""

from pathlib import Path

from tutti_hal.conformance_tests.simulated import offer

ACME = offer("acme", Path(__file__).parent)
