/*
 * Testing: a runtime that runs out of what it hands out, whatever it is. Where the program has a function named
 * MSCCLPP_GPU_REFUSES, each call that takes something of the device asks it first, and fails for want of memory if it
 * says so.
 */
#ifndef MCA_COMMON_GPU_REFUSING_H
#define MCA_COMMON_GPU_REFUSING_H

#include "mca/common/gpu/gpu.h"

#define MSCCLPP_GPU_REFUSES "mscclpp_test_gpu_refuses"

/* `what` is the name of a function of the runtime's table; true: it is to fail. Called by any thread. */
typedef bool (*mscclpp_gpu_refuses_fn_t)(const char *what);

/* Of a process that uses one runtime: that one as it is, unless the program wants it to refuse. */
const mscclpp_gpu_ops_t *mscclpp_gpu_refusing(const mscclpp_gpu_ops_t *ops);

#endif
