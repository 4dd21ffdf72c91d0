/*
 * Launches that a team repeats. An application that solves something calls with the same buffers again and again, and a
 * launch that was prepared takes less of the host's time, and reaches the device sooner, than one that hands over its
 * arguments. So what has been launched a few times with the same arguments is prepared. Kernels keep what changes from
 * call to call in device memory.
 */
#ifndef MCA_COMMON_RUN_REPEATS_H
#define MCA_COMMON_RUN_REPEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/gpu/gpu.h"

#define MSCCLPP_REPEATS 8

typedef struct {
    mscclpp_dev_launch_t launch; /* with a copy of the arguments; NULL in an entry without launch */
    uint32_t seen;
    uint64_t used; /* by `clock` */
    mscclpp_gpu_prepared_t *prepared;
} mscclpp_repeat_t;

/* Of one team, in memory of zeros; its fields are repeats.c's own. */
typedef struct {
    mscclpp_repeat_t entries[MSCCLPP_REPEATS];
    uint64_t clock;
    bool refused; /* the runtime prepares nothing */
} mscclpp_repeats_t;

/*
 * As gpu->launch. Bytes of the arguments that the kernel does not read are the same each time. Each kernel of the team
 * ends before the next one is launched.
 */
mscclpp_status_t mscclpp_repeats_launch(mscclpp_repeats_t *repeats, const mscclpp_gpu_ops_t *gpu, int device,
                                        mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch);

/* Once no kernel of the team runs any more. */
void mscclpp_repeats_clear(mscclpp_repeats_t *repeats, const mscclpp_gpu_ops_t *gpu);

#endif
