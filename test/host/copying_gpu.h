/*
 * A GPU runtime for tests. It has the host twin's memory, and streams that only copy. Each stream has its own thread
 * and runs with some delay. As with copy engines, copies of an aligned word are atomic and come last. It runs no
 * kernels.
 */
#ifndef TEST_HOST_COPYING_GPU_H
#define TEST_HOST_COPYING_GPU_H

#include "mca/common/gpu/gpu.h"

const mscclpp_gpu_ops_t *copying_gpu(void);

#endif
