/*
 * Counts the processes that use a GPU, whatever teams they are in. Each process that has joined holds a socket whose
 * name says so; nothing is sent over it. The socket goes away with the process, however the process ends. Processes in
 * other network namespaces are not seen.
 */
#ifndef MCA_COMMON_GPU_USERS_H
#define MCA_COMMON_GPU_USERS_H

#include <stdint.h>

#include "mca/common/gpu/gpu.h"

/*
 * Makes this process, which belongs to `server` (mscclpp_gpu_info_t), one of the counted users of a GPU. Returns the
 * number of users, this process included; 1 if it cannot be known. *strangers_p counts the users of other servers.
 * Thread-safe.
 */
uint32_t mscclpp_gpu_users_join(const unsigned char uuid[MSCCLPP_GPU_UUID_SIZE], uint64_t server,
                                uint32_t *strangers_p);

/* Stops counting this process, on all GPUs. */
void mscclpp_gpu_users_leave(void);

#endif
