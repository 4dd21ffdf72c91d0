/*
 * A driver's library that can be loaded and initialised, and nothing else: it knows of no device and counts who asks.
 * Which functions the CUDA runtime looks for is the runtime's business, so this has a few of the oldest only.
 */
#include "test/unit/mock_cuda.h"

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>

#define EXPORTED __attribute__((visibility("default")))

static atomic_bool initialised;
static atomic_int questions; /* threads ask at once */
static atomic_int probes;

#undef cuDriverGetVersion
#undef cuInit
#undef cuCtxGetCurrent

static CUresult state(void)
{
    return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORTED CUresult cuDriverGetVersion(int *version)
{
    ++probes;
    *version = 0;
    return CUDA_ERROR_NO_DEVICE;
}

EXPORTED CUresult cuInit(unsigned flags)
{
    (void)flags;
    ++probes;
    return CUDA_ERROR_NO_DEVICE;
}

EXPORTED CUresult cuCtxGetCurrent(CUcontext *context)
{
    ++questions;
    *context = NULL;
    return state();
}

EXPORTED void mock_cuda_initialise(void)
{
    initialised = true;
}

EXPORTED int mock_cuda_questions(void)
{
    return questions;
}

EXPORTED int mock_cuda_probes(void)
{
    return probes;
}
