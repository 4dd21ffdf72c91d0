/* A semaphore between one block of two ranks: each side signals the other and waits for the other's signals. */
#ifndef MSCCLPP_DEVICE_TYPES_SEMAPHORE_H
#define MSCCLPP_DEVICE_TYPES_SEMAPHORE_H

#include <stdint.h>

/* All three count from 0 and never go back. */
typedef struct {
    uint64_t *inbound;        /* this rank's memory: how often the peer has signalled */
    uint64_t *remote_inbound; /* the peer's `inbound`, mapped */
    uint64_t *expected;       /* this rank's memory: how many signals this side has waited for; kept between kernels */
} mscclpp_dev_semaphore_t;

#endif
