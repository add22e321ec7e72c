"""A seeded trace with the lengths and the prefix sharing of the published Mooncake conversation trace.

The published trace (12,031 requests): 12,035 input tokens on average, median 6,909, at most 126,195; 343 output tokens;
about 10 requests every 3 seconds; one system prompt in front of everything; 36.6 % of all hash ids are reuse of an
earlier one. Here requests are turns of conversations, so that a later turn's prompt begins with an earlier one's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tutti_hal.workload.shapes import TOKENS_PER_HASH
from tutti_hal.workload.trace import TraceRequest

# Log-normal input lengths with the published median and mean: sigma = sqrt(2 ln(mean / median)).
_INPUT_MEDIAN_LN = 8.8405
_INPUT_SIGMA = 1.0535
_INPUT_MIN, _INPUT_MAX = 890, 126_195
_OUTPUT_MEAN, _OUTPUT_SIGMA, _OUTPUT_MAX = 343, 185, 2_000
_TICK_MS = 3_000
_REQUESTS_PER_TICK = 10
#: Turns are taken up again within this many conversations; a person answers within minutes.
_ACTIVE_CONVERSATIONS = 600
#: Chosen so that reuse over a long trace meets the published 36.6 %; tests hold it there.
_CONTINUE_PROBABILITY = 0.48
_SYSTEM_PROMPT_ID = 0


@dataclass
class _Conversation:
    full_blocks: list[int]  # ids of the 512-token blocks that a later turn repeats


def generate_trace(seed: int, count: int) -> tuple[TraceRequest, ...]:
    """``count`` requests; the same for the same seed on every machine.

    New hash ids are numbered in order of appearance, as in the published trace. The first ``n`` requests do not depend
    on ``count``.

    Raises:
        ValueError: ``count`` is below 1.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    rng = random.Random(seed)
    active: list[_Conversation] = []
    next_id = _SYSTEM_PROMPT_ID + 1
    tick = 0
    left_in_tick = _REQUESTS_PER_TICK
    requests = []
    for _ in range(count):
        while left_in_tick == 0:
            tick += 1
            left_in_tick = round(max(0.0, rng.gauss(_REQUESTS_PER_TICK, 2)))
        left_in_tick -= 1
        input_length = int(min(max(rng.lognormvariate(_INPUT_MEDIAN_LN, _INPUT_SIGMA), _INPUT_MIN), _INPUT_MAX))
        output_length = int(min(max(rng.gauss(_OUTPUT_MEAN, _OUTPUT_SIGMA), 1), _OUTPUT_MAX))
        blocks = -(-input_length // TOKENS_PER_HASH)
        # How much of the prompt earlier turns hold: 0.71 on average in the published trace, mostly much or all.
        wanted = rng.betavariate(1.6, 0.55) * blocks
        conversation = None
        if rng.random() < _CONTINUE_PROBABILITY:
            fitting = [c for c in active if 1 < len(c.full_blocks) < blocks]
            if fitting:
                conversation = min(fitting, key=lambda c: abs(len(c.full_blocks) - wanted))
        if conversation is None:
            conversation = _Conversation([_SYSTEM_PROMPT_ID])
        else:
            active.remove(conversation)
        ids = list(conversation.full_blocks)
        fresh = blocks - len(ids)
        ids += range(next_id, next_id + fresh)
        next_id += fresh
        requests.append(TraceRequest(tick * _TICK_MS, input_length, output_length, tuple(ids)))
        # The last block is partial, unless the length divides: the next turn fills it differently.
        conversation.full_blocks = ids[: input_length // TOKENS_PER_HASH] or ids
        active.append(conversation)
        del active[:-_ACTIVE_CONVERSATIONS]
    return tuple(requests)
