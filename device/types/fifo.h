/*
 * A FIFO of triggers from the kernels of one device to the CPU: a ring of a power of two of slots. Positions count from
 * 0 and never go back; position p lies in slot p modulo the size. A slot is full for lap p / size once the parity of
 * its second word is that lap's, so nobody ever clears one.
 */
#ifndef MSCCLPP_DEVICE_TYPES_FIFO_H
#define MSCCLPP_DEVICE_TYPES_FIFO_H

#include <stdint.h>

#include "device/types/trigger.h"

typedef struct {
    mscclpp_dev_trigger_t *ring; /* pinned host memory, zeroed at first */
    uint64_t size;               /* slots */
    uint64_t *head;              /* device memory: the next position to push */
    uint64_t *tail_seen;         /* device memory: what pushers last saw of `tail`, or an older value of it */
    uint64_t *tail;              /* pinned host memory: the next position that the host will take */
} mscclpp_dev_fifo_t;

#endif
