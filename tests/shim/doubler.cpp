// SPDX-License-Identifier: Apache-2.0
//
// The smallest controller: answers each new doorbell value with its double, by DMA.
#include "tutti/port.h"

struct Doubler {
    const uint32_t *doorbell;
    uint64_t answer_bus;
    uint32_t rung;
};

extern "C" TT_EXPORT void serve(void *argument, tt_port port) {
    auto *self = static_cast<Doubler *>(argument);
    uint32_t last = 0;
    while (port.ops->wait_until(port.ctx, UINT64_MAX) == TT_PORT_OK) {
        const uint32_t value = port.ops->mmio_load(port.ctx, self->doorbell);
        if (value != last) {
            last = value;
            ++self->rung;
            const uint32_t answer = 2 * value;
            port.ops->dma_write(port.ctx, self->answer_bus, &answer, sizeof answer);
        }
    }
}
