/*
 * Triggers: 128 bits by which a kernel asks the CPU proxy to do something over a port channel.
 *
 *   word 0   bits  0-38  offset of the source             (addition: all 64 bits hold the value)
 *            bits 39-63  size, low 25 bits
 *   word 1   bits  0-38  offset of the destination
 *            bits 39-43  size, high 5 bits
 *            bits 44-59  number of the channel
 *            bits 60-62  type
 *            bit  63     lap parity, set by the FIFO
 *
 * A region reached over a port channel therefore has at most 512 GiB, and one trigger moves at most 1 GiB less a byte;
 * device code splits larger moves.
 */
#ifndef MSCCLPP_DEVICE_TYPES_TRIGGER_H
#define MSCCLPP_DEVICE_TYPES_TRIGGER_H

#include <stdint.h>

#define MSCCLPP_DEV_PORT_REGION_MAX ((uint64_t)1 << 39) /* bytes */
#define MSCCLPP_DEV_PORT_CHANNELS 65536u
#define MSCCLPP_DEV_TRIGGER_SIZE_MAX 0x3fffffffu /* bytes */

/* Larger puts are split into pieces of this size, which keeps the alignment of what follows. */
#define MSCCLPP_DEV_TRIGGER_CHUNK ((uint64_t)1 << 29)

/* The proxy performs them in this order. DATA, SIGNAL and FLUSH may be combined; ADD cannot be combined. */
enum { MSCCLPP_TRIGGER_ADD = 0, MSCCLPP_TRIGGER_DATA = 1, MSCCLPP_TRIGGER_SIGNAL = 2, MSCCLPP_TRIGGER_FLUSH = 4 };

typedef struct {
    uint64_t word[2];
} mscclpp_dev_trigger_t;

/* A trigger's contents. Channels with a user's handler may give the fields other meanings. */
typedef struct {
    uint64_t to;    /* offset in the peer's region, bytes */
    uint64_t from;  /* offset in this rank's region, bytes; not for ADD */
    uint64_t value; /* ADD only */
    uint32_t size;  /* bytes; not for ADD */
    uint32_t type;
    uint32_t channel;
} mscclpp_dev_request_t;

#endif
