/*
 * The one place where kernel bodies meet a compiler: CUDA's, or the host's for the twin. Bodies are written in the
 * common subset of C11 and CUDA C++ and use nothing of either but what the two shims define under the same names:
 *
 *   MSCCLPP_DEV                   qualifier of every device function (always inlined)
 *   MSCCLPP_DEV_OUTLINE           the same, never inlined: for what would make every caller large
 *   MSCCLPP_DEV_SHARED            inlined on a GPU, where its arguments must stay in registers; one copy on the host
 *   mscclpp_dev_vec_t             16 bytes, moved at once
 *   mscclpp_dev_ctx_t             who the calling thread is, and whether it gave up waiting
 *   mscclpp_dev_{ld,st,red,atom}_ memory accesses; the memory order and its scope are part of the name, so that
 *                                 ThreadSanitizer sees the protocol on the twin (it does not model fences)
 *   mscclpp_dev_block_sync{,_or}  a barrier of the block's threads; _or also combines a flag of each
 *   MSCCLPP_DEV_WARP              threads from 0 on that can act as one without a barrier: 32, and 1 on the twin
 *   mscclpp_dev_warp_or           combines a flag of each of those, and orders their accesses to the block's memory
 *   mscclpp_dev_warp_meet         after it those that branches had taken apart execute the same instructions again
 *   MSCCLPP_DEV_LANES             lanes of a warp of 32 that one thread stands for: 1, and 32 on the twin
 *   mscclpp_dev_lane              which lane the thread's i-th one is
 *   mscclpp_dev_bundle_t          what the thread's lanes hold of a bundle: four lines of 128 bytes, 16 bytes a lane
 *   mscclpp_dev_bundle_{close,open,st,ld,has}  units to lines, back, lines to and from memory, and whether
 *                                 all flags that the thread has loaded are those awaited: packet.h
 *   mscclpp_dev_mul_{f32,f64}     products that are rounded before anything is added to them
 *   mscclpp_dev_pause             one turn of a waiting loop
 *   mscclpp_dev_now_ns            a clock in nanoseconds
 *   mscclpp_dev_cluster_*         blocks that write to one another's memory: how many form a cluster (1: none do), and
 * a barrier of all their threads, before whose last one nobody may leave
 */
#ifndef MSCCLPP_DEVICE_SHIM_SHIM_H
#define MSCCLPP_DEVICE_SHIM_SHIM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#include "device/shim/cuda.h"
#else
#include "device/shim/host.h"
#endif

#endif
