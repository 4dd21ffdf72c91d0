/*
 * Launches that a team repeats. Applications often call with the same buffers repeatedly. So once a launch has been
 * repeated a few times with the same arguments, it is prepared: a prepared launch takes less of the host's time and
 * reaches the device sooner than a launch that passes its arguments. Data that changes from call to call is kept in
 * device memory, and the kernels update it.
 */
#ifndef MCA_COMMON_RUN_REPEATS_H
#define MCA_COMMON_RUN_REPEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/gpu/gpu.h"

/* The number of launches of a team that are observed. */
#define MSCCLPP_REPEATS 8

/* One launch that may repeat. */
typedef struct {
    mscclpp_dev_launch_t launch;      /* the launch; its `args` is a copy; NULL: the entry is empty */
    uint32_t launches;                /* number of ordinary launches with these arguments so far */
    uint64_t last_use;                /* value of `clock` at the last use */
    mscclpp_gpu_prepared_t *prepared; /* NULL: not yet prepared */
} mscclpp_repeat_t;

/* The launches of one team. Zeroed memory is a valid initial state. Only repeats.c uses the fields. */
typedef struct {
    mscclpp_repeat_t entries[MSCCLPP_REPEATS];
    uint64_t clock;  /* number of launches so far */
    bool has_failed; /* the runtime could not prepare a launch; all later launches are ordinary ones */
} mscclpp_repeats_t;

/*
 * Launches a kernel as gpu->launch does, but by a prepared launch once the same launch has repeated. Launches in the
 * ordinary way if there is no memory to observe the launch, or if it cannot be prepared. Returns the status of the
 * launch. Arguments are compared bytewise, so bytes that the kernel does not read must be the same each time. Each
 * kernel of the team must end before the next one is launched.
 */
mscclpp_status_t mscclpp_repeats_launch(mscclpp_repeats_t *repeats, const mscclpp_gpu_ops_t *gpu, int device,
                                        mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch);

/* Frees all entries. No kernel of the team may be running. */
void mscclpp_repeats_clear(mscclpp_repeats_t *repeats, const mscclpp_gpu_ops_t *gpu);

#endif
