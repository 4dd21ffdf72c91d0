/*
 * A FIFO of triggers from the kernels of one device to the CPU. It is a ring whose number of slots is a power of two.
 * Positions count from 0 and never go back; position p uses slot p modulo the number of slots. A slot holds the trigger
 * of its current lap once the parity bit in the trigger's second word matches that lap, so slots are never cleared.
 */
#ifndef MSCCLPP_DEVICE_TYPES_FIFO_H
#define MSCCLPP_DEVICE_TYPES_FIFO_H

#include <stdint.h>

#include "device/types/trigger.h"

typedef struct {
    mscclpp_dev_trigger_t *ring; /* pinned host memory, zeroed at first */
    uint64_t size;               /* number of slots */
    uint64_t *head;              /* device memory: the next position to push */
    uint64_t *tail_seen;         /* device memory: a recent value of `tail`, as some pusher has read it */
    uint64_t *tail;              /* pinned host memory: the next position that the host will take */
} mscclpp_dev_fifo_t;

#endif
