/*
 * A GPU runtime for tests: the host twin's memory, and streams that only copy, each with a thread of its own and some
 * time behind. Copies of an aligned word are atomic and come last, as copy engines have it. It runs no kernels.
 */
#ifndef TEST_HOST_COPYING_GPU_H
#define TEST_HOST_COPYING_GPU_H

#include "mca/common/gpu/gpu.h"

const mscclpp_gpu_ops_t *copying_gpu(void);

#endif
