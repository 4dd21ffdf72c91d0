/*
 * Device memory for the slots of copy engines. The teams of a process share it, because only one call of a process at a
 * time is an all-reduce by copy engines: each call ends before the next one begins, or has the process's slot
 * (mca/common/group/admission.h). A peer puts nothing there before this rank has come to the call. Any thread may call
 * the functions.
 */
#ifndef MCA_COMMON_ENGINE_MEMORY_H
#define MCA_COMMON_ENGINE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/base/status.h"
#include "mca/common/gpu/gpu.h"

/*
 * Sets *memory_p to `size` bytes of memory of a device, which can be exported. Teams that pass the same `process` share
 * the memory; NULL: it is for this team alone. The caller gives it back with mscclpp_engine_memory_give. After an
 * error, *memory_p is NULL. May wait for kernels of the device.
 */
mscclpp_status_t mscclpp_engine_memory_take(const mscclpp_gpu_ops_t *gpu, int device, const void *process,
                                            uint64_t size, void **memory_p);

/*
 * Gives back memory that no peer of the team maps any more. The last user's call frees it, which may wait for kernels
 * of the device. `memory` must come from mscclpp_engine_memory_take, or be NULL.
 */
void mscclpp_engine_memory_give(const mscclpp_gpu_ops_t *gpu, int device, void *memory);

/*
 * Marks memory as spoiled after a failed call, because peers' copies of that call may still arrive there. No team uses
 * spoiled memory for calls any more, and none takes it. Does nothing for NULL.
 */
void mscclpp_engine_memory_spoil(const void *memory);

/* Returns true if the memory is spoiled. Returns false for NULL. */
bool mscclpp_engine_memory_is_spoiled(const void *memory);

#endif
