/*
 * Device memory for the slots of copy engines. The teams of a process share it, because one call of a process at a time
 * uses copy engines for an all-reduce: each call ends before the next one begins, or it has the process's slot
 * (mca/common/group/admission.h). A peer puts nothing there before this rank has come to the call. Thread-safe.
 */
#ifndef MCA_COMMON_ENGINE_MEMORY_H
#define MCA_COMMON_ENGINE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/base/status.h"
#include "mca/common/gpu/gpu.h"

/*
 * Sets *memory_p to memory of `size` bytes of a device, which can be exported. Teams that pass the same `process` share
 * it; NULL: it is for this team alone. The caller gives it back with mscclpp_engine_memory_give. After an error,
 * *memory_p is NULL. May wait for kernels of the device.
 */
mscclpp_status_t mscclpp_engine_memory_take(const mscclpp_gpu_ops_t *gpu, int device, const void *process,
                                            uint64_t size, void **memory_p);

/*
 * Gives memory back that no peer of the team maps any more. With its last user it is freed, which may wait for kernels
 * of the device. NULL is allowed; any other memory must have been taken.
 */
void mscclpp_engine_memory_give(const mscclpp_gpu_ops_t *gpu, int device, void *memory);

/*
 * Tell and ask whether a call has failed whose copies, made by peers, may still be on their way into the memory. Such
 * memory is spoiled: no team uses it for calls any more, and none takes it. `is_spoiled` is false for NULL.
 */
void mscclpp_engine_memory_spoil(const void *memory);
bool mscclpp_engine_memory_is_spoiled(const void *memory);

#endif
