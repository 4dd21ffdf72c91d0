/* What the files of the team and of the task share; nothing outside mca/common includes it. */
#ifndef MCA_COMMON_TEAM_PARTS_H
#define MCA_COMMON_TEAM_PARTS_H

#include "mca/common/algo/algo.h"
#include "mca/common/group/group.h"
#include "mca/common/engine/engine.h"
#include "mca/common/fabric/fabric.h"
#include "mca/common/run/runner.h"
#include "mca/common/team/team.h"

struct mscclpp_team {
    mscclpp_group_t group;
    mscclpp_runner_t runner;
    mscclpp_protocol_t protocol; /* rank 0's */
    bool ll128;                  /* links to all peers keep lines of 128 bytes whole; equal on all ranks */
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE];
    uint64_t server;        /* of that GPU, see mscclpp_gpu_info_t */
    uint32_t gpu_users;     /* processes on that GPU that this rank knows of */
    uint32_t gpu_strangers; /* those of them that have another server */
    bool one_gpu;           /* equal on all ranks: all ranks, of which there are several, are on one */
    uint64_t full_size;     /* scratch_size, once larger messages come; 0: nothing more will come */
    uint64_t small_max;     /* the largest message until then */

    mscclpp_fabric_t *fabric; /* NULL: all ranks are on one node */

    const char *last_algorithm;

    bool engines;             /* copy engines may serve blocking calls; equal on all ranks */
    mscclpp_engine_t *engine; /* NULL until they first do */
    uint64_t park_key;        /* see team/park.h; 0: it is never taken over */
    /* team.c: once it has ended. */
    mscclpp_team_t *next_remains;
    void *engine_memory; /* that peers may still map; NULL: none */
    void *given_up;      /* likewise, scratch */
};

/* team.c: frees scratch of ended teams that every peer has closed. */
void mscclpp_team_reap(void);

/* fail.c: marks the team as broken and tells the peers why, once. Returns the status. */
mscclpp_status_t mscclpp_team_fail(mscclpp_team_t *team, mscclpp_status_t status);

/*
 * renew.c: makes room for `epochs` more flags: where they would pass the limit, all ranks meet, clear their packet
 * areas and begin again at 0. Called at the same point by all ranks; `stream` is that of the team's kernels, NULL for
 * one of its own.
 */
mscclpp_status_t mscclpp_team_reserve_epochs(mscclpp_team_t *team, mscclpp_gpu_stream_t *stream, uint64_t epochs);

#endif
