/* Writes the handles of the installed device headers. There is one writer for each layout that was ever released. */
#ifndef MPIX_HANDLES_H
#define MPIX_HANDLES_H

#include <stddef.h>

#include "device/types/user.h"

/* Return the size of a handle for an abi, in bytes, or 0 if this library does not know the abi. */
size_t mpix_memory_handle_size(unsigned abi);
size_t mpix_channel_handle_size(unsigned abi, int is_port);
size_t mpix_room_handle_size(unsigned abi);
size_t mpix_partitions_handle_size(unsigned abi);

/* Returns the newest abi that this library knows. The oldest is 1. */
unsigned mpix_newest_abi(void);

/*
 * Write a handle for a known abi to `handle`, which has the size that the functions above return, and any alignment.
 * `marks` and `done` point to an entry for each of the `partitions` partitions.
 */
void mpix_write_memory(unsigned abi, const mscclpp_dev_user_memory_t *device_memory, void *handle);
void mpix_write_channel(unsigned abi, const mscclpp_dev_user_channel_t *device_channel, void *handle);
void mpix_write_partitions(unsigned abi, const mscclpp_dev_user_watch_t *watch, uint64_t *marks, const uint64_t *done,
                           uint32_t partitions, void *handle);
void mpix_write_room(unsigned abi, const mscclpp_dev_user_room_t *device_room, void *handle);

#endif
