/*
 * How many processes use a GPU, whatever teams they are in: each that has joined holds a socket whose name says so,
 * which ends with it, however it ends. Nothing is sent over it. Processes of other network namespaces are not seen.
 */
#ifndef MCA_COMMON_GPU_USERS_H
#define MCA_COMMON_GPU_USERS_H

#include <stdint.h>

#include "mca/common/gpu/gpu.h"

/*
 * Counts this process, of that server (mscclpp_gpu_info_t), among the users of a GPU from now on. Returns how many
 * there are, this one among them; 1 where that cannot be known. *strangers_p: those of other servers. Thread-safe.
 */
uint32_t mscclpp_gpu_users_join(const unsigned char uuid[MSCCLPP_GPU_UUID_SIZE], uint64_t server,
                                uint32_t *strangers_p);

/* Ends that for all GPUs. */
void mscclpp_gpu_users_leave(void);

#endif
