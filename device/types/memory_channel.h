/* A memory channel: a peer's memory, mapped, and a semaphore that orders accesses to it. */
#ifndef MSCCLPP_DEVICE_TYPES_MEMORY_CHANNEL_H
#define MSCCLPP_DEVICE_TYPES_MEMORY_CHANNEL_H

#include "device/types/semaphore.h"

typedef struct {
    char *local;  /* this rank's memory */
    char *remote; /* the peer's memory, mapped */
    mscclpp_dev_semaphore_t semaphore;
} mscclpp_dev_memory_channel_t;

#endif
