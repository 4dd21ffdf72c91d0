/*
 * A port channel: a connection to a peer over which the CPU proxy moves bytes when kernels ask for it. The bytes move
 * from a region of this rank's memory into a region of the peer's memory. The channel also has a token, which counts
 * the peer's signals.
 */
#ifndef MSCCLPP_DEVICE_TYPES_PORT_CHANNEL_H
#define MSCCLPP_DEVICE_TYPES_PORT_CHANNEL_H

#include "device/types/fifo.h"

/* All counts begin at 0 and never go back. */
typedef struct {
    mscclpp_dev_fifo_t fifo;
    uint64_t *flushed; /* pinned host memory: all triggers of the channel below this position of the FIFO are flushed */
    uint64_t *inbound; /* own memory: how often the peer has signalled; NULL for a channel that nobody waits on */
    uint64_t *expected; /* device memory: how many signals this side has waited for; kept between kernels */
    uint32_t number;    /* number of the channel in the proxy's table */
    uint32_t peer;      /* rank that a failed wait names */
} mscclpp_dev_port_channel_t;

#endif
