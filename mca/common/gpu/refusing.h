/*
 * For tests: a runtime that runs out of resources. If the program has a function named MSCCLPP_GPU_REFUSES, each call
 * that takes a resource of the device asks that function first. If the function returns true, the call fails as if
 * there were no memory.
 */
#ifndef MCA_COMMON_GPU_REFUSING_H
#define MCA_COMMON_GPU_REFUSING_H

#include "mca/common/gpu/gpu.h"

#define MSCCLPP_GPU_REFUSES "mscclpp_test_gpu_refuses"

/* `function_name` names a function in the runtime's table. Returns true to make the call fail. Called by any thread. */
typedef bool (*mscclpp_gpu_refuses_fn_t)(const char *function_name);

/*
 * Returns `ops` itself, or, if the program wants refusals, a table that refuses. A process may call it for one runtime
 * only.
 */
const mscclpp_gpu_ops_t *mscclpp_gpu_refusing(const mscclpp_gpu_ops_t *ops);

#endif
