"""What is said of how a batch ended."""

from __future__ import annotations

import numpy as np
import pytest

from tutti_hal.io_uring.completion import completion_dtype, ended
from tutti_hal.io_uring.layout import State, Why

pytestmark = pytest.mark.ring


def test_each_way_of_ending_is_counted_most_of_them_first() -> None:
    done = np.zeros(5, completion_dtype())
    done["state"] = [State.COMPLETED, State.TIMED_OUT, State.COMPLETED, State.NOT_RUN, State.COMPLETED]
    done["why"][3] = Why.STARVED
    done["sct"][4], done["sc"][4] = 2, 0x81
    assert ended(done) == "2 completed, 1 timed out, 1 not run (starved), 1 failed (sct 2 sc 129)"
