/*
 * The one place where kernel bodies meet a compiler: CUDA's, or the host's for the twin (the kernels on CPU threads).
 * Bodies are written in the common subset of C11 and CUDA C++. The only things specific to a compiler that they use are
 * those that the two shims define under the same names:
 *
 *   MSCCLPP_DEV                   qualifier of every device function (always inlined)
 *   MSCCLPP_DEV_OUTLINE           the same, never inlined: for code that would make every caller large
 *   MSCCLPP_DEV_SHARED            inlined on a GPU, where its arguments must stay in registers; one copy on the host
 *   mscclpp_dev_vec_t             16 bytes, moved at once
 *   mscclpp_dev_ctx_t             who the calling thread is, and whether it gave up waiting
 *   mscclpp_dev_{ld,st,red,atom}_ memory accesses; the memory order and its scope are part of the name, so that
 *                                 ThreadSanitizer sees the protocol on the twin (it does not model fences)
 *   mscclpp_dev_fence_acq_rel_sys orders a thread's accesses before it and after it, for packets, whose own order is
 *                                 relaxed
 *   mscclpp_dev_block_sync{,_or}  a barrier of the block's threads; _or also combines a flag of each
 *   MSCCLPP_DEV_WARP              number of threads, from 0 on, that can act as one without a barrier: 32, or 1 on the
 *                                 twin
 *   mscclpp_dev_warp_or           combines a flag of each of these threads, and orders their accesses to the block's
 *                                 memory
 *   mscclpp_dev_warp_meet         makes these threads execute the same instructions again after a branch
 *   MSCCLPP_DEV_LANES             lanes of a warp of 32 that one thread stands for: 1, or 32 on the twin
 *   mscclpp_dev_lane              number of the thread's i-th lane
 *   mscclpp_dev_bundle_t          the thread's lanes' part of a bundle: four lines of 128 bytes, 16 bytes a lane
 *   mscclpp_dev_bundle_{close,open,st,ld,has}  turn units into lines and back, store and load lines, and tell whether
 *                                 all flags that the thread has loaded are the expected ones: lib/packet.h
 *   mscclpp_dev_mul_{f32,f64}     products that are rounded before anything is added to them
 *   mscclpp_dev_{f16,bf16}_to_f32, mscclpp_dev_f32_to_{f16,bf16}  convert 16-bit floats, which are given as their bits;
 *                                 f32_to_ rounds to nearest, ties to even
 *   MSCCLPP_DEV_{UNROLL,ROLLED}   before a loop: unroll it, or do not
 *   MSCCLPP_DEV_FOLDS             true if a body is compiled for each of the frequent types and operations
 *   MSCCLPP_DEV_{SENDS,SAW}_PACKET  tell ThreadSanitizer of a packet's order; nothing on a GPU
 *   mscclpp_dev_pause             one turn of a waiting loop
 *   mscclpp_dev_now_ns            a clock in nanoseconds
 *   mscclpp_dev_cluster_*         for blocks that write to one another's memory: the number of blocks in a cluster, or
 *                                 1 without clusters; and a barrier of all their threads, before whose last call no
 *                                 block may leave
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
