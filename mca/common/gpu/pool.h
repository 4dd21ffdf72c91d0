/*
 * Small pieces of device memory for the teams of the process, which use them as their first scratch. Pieces of one size
 * share allocations, and peers map an allocation once for all pieces in it. So many communicators take little more
 * memory than their pieces, and few handles and mappings. Thread-safe.
 */
#ifndef MCA_COMMON_GPU_POOL_H
#define MCA_COMMON_GPU_POOL_H

#include <stdint.h>

#include "mca/common/base/status.h"
#include "mca/common/gpu/gpu.h"

/*
 * Allocates zeroed device memory that can be exported, as aligned as memory of `ops->device_alloc`, up to 512 bytes.
 * `size` is above 0. Pieces above 256 KiB are separate allocations. If a piece is reused, it is zeroed in `stream`, and
 * the function waits for that. May wait for kernels of the device, as `ops->device_alloc` does. After an error,
 * *address_p may have changed, and nothing is allocated.
 */
mscclpp_status_t mscclpp_pool_alloc(const mscclpp_gpu_ops_t *ops, int device, mscclpp_gpu_stream_t *stream,
                                    uint64_t size, void **address_p);

/*
 * Returns a piece that no kernel and no peer uses any more to the pool. An allocation is freed with its last piece,
 * which may wait for kernels of the device. Memory of `ops->device_alloc`, and NULL, are allowed.
 */
void mscclpp_pool_free(const mscclpp_gpu_ops_t *ops, int device, void *address);

#endif
