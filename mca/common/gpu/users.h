/*
 * Counts the processes that use a GPU, whatever their teams. Each process that has joined has a socket with a name that
 * says so; no data is sent over it. The socket is closed with the process, however the process ends. Processes in other
 * network namespaces are not counted.
 */
#ifndef MCA_COMMON_GPU_USERS_H
#define MCA_COMMON_GPU_USERS_H

#include <stdint.h>

#include "mca/common/gpu/gpu.h"

/*
 * Adds this process, which belongs to `server` (mscclpp_gpu_info_t), to the counted users of a GPU. Returns the number
 * of users, including this process; 1 if it is unknown. *strangers_p counts the users of other servers. Thread-safe.
 */
uint32_t mscclpp_gpu_users_join(const unsigned char uuid[MSCCLPP_GPU_UUID_SIZE], uint64_t server,
                                uint32_t *strangers_p);

/* Stops counting this process, on all GPUs. */
void mscclpp_gpu_users_leave(void);

#endif
