/*
 * The parts of a team, for the files of mca/common/team, task and setup. No file outside mca/common includes this
 * header.
 */
#ifndef MCA_COMMON_TEAM_PARTS_H
#define MCA_COMMON_TEAM_PARTS_H

#include "mca/common/algo/algo.h"
#include "mca/common/algo/coll.h"
#include "mca/common/group/group.h"
#include "mca/common/engine/engine.h"
#include "mca/common/fabric/fabric.h"
#include "mca/common/run/runner.h"
#include "mca/common/team/kin.h"
#include "mca/common/team/team.h"

typedef struct mscclpp_team_stream mscclpp_team_stream_t; /* defined in queue.c */
typedef struct mscclpp_team_plan mscclpp_team_plan_t;

/*
 * The small scratch of a team that has a leased scratch (team/lease.h), or of a team for queued operations whose
 * scratch has grown, and its sizes (team/grow.h).
 */
typedef struct {
    char *scratch;
    char *peer_scratch[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_mapping_t *peer_mapping[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_layout_t layout;
    uint64_t full_size, small_max, middle_max; /* as in mscclpp_team below, for the small scratch */
} mscclpp_team_kept_t;

/* The last choice for a collective over several nodes, and all that it depends on. */
typedef struct {
    bool is_set;
    bool varied;
    bool mapped;
    uint64_t block_bytes;
    mscclpp_select_input_t input; /* its layout is the next field */
    mscclpp_layout_t layout;
    mscclpp_coll_choice_t choice;
} mscclpp_team_choice_t;

struct mscclpp_team {
    mscclpp_group_t group;
    mscclpp_runner_t runner;
    mscclpp_protocol_t protocol;               /* the settings that all ranks share, which are those of rank 0 */
    bool ll128;                                /* all links deliver lines of 128 bytes whole; equal on all ranks */
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE]; /* UUID of this rank's GPU */
    uint64_t server;                           /* MPS server of this rank's GPU, as in mscclpp_gpu_info_t */
    uint32_t gpu_users;                        /* number of processes on this GPU that this rank knows */
    uint32_t gpu_strangers;                    /* number of processes among `gpu_users` that use another server */
    bool one_gpu;                              /* there are several ranks, all on one GPU; equal on all ranks */
    uint64_t full_size;                        /* the scratch_size to grow to; 0: the scratch does not grow any more */
    uint64_t small_max;                        /* the largest message that does not make the scratch grow */
    bool lacks_puts;           /* a user has chosen puts, or any algorithm, and the scratch has no room for puts */
    uint64_t middle_max;       /* the largest message for which the scratch does not grow to its full size; 0: there is
                                  no such size */
    mscclpp_team_kept_t *kept; /* NULL: the team has not kept a small scratch */
    bool counts_uses;          /* the team has had a leased scratch; equal on all ranks */
    bool in_use;               /* a use is in progress */
    uint64_t uses;             /* number of uses so far; equal on all ranks */
    bool has_lost;             /* of several nodes, this one has lost a leased scratch; equal on its ranks */
    mscclpp_layout_t lost_layout; /* if has_lost: the layout of the lost scratch */
    void *lost_chunk;             /* a chunk that the team has lost, while peers may still map it; NULL: none */

    mscclpp_fabric_t *fabric;                         /* NULL: all ranks are on one node */
    mscclpp_team_choice_t choices[MSCCLPP_COLL_LAST]; /* by collective; used only if there is a fabric */

    /*
     * By collective, all-reduce last. Bit i: the costs that the model predicts for sizes from 2^i on have been logged.
     */
    uint64_t logged_costs[MSCCLPP_COLL_LAST + 1];

    /*
     * Arguments of the packet kernels for blocks that differ in size. They are kept from call to call, since clearing
     * their long lists takes time. Entries of ranks that the node does not have stay 0.
     */
    mscclpp_dev_blocks_args_t blocks_args;

    const char *last_algorithm;     /* name of the algorithm of the last call; "none" before the first */
    mscclpp_team_stream_t *streams; /* the application's streams that a team for queued operations has seen */
    bool has_older_graphs; /* graphs may have queued operations that were captured before the scratch has grown */

    bool may_use_engines;       /* copy engines may serve calls; equal on all ranks */
    mscclpp_engine_t *engine;   /* NULL before the first call that copy engines serve */
    bool calls_one_at_a_time;   /* the teams of this process call one after another, or with the process's slot, so they
                                   may share memory */
    mscclpp_team_plan_t *plans; /* execution plans of the team; see team/plans.h */
    int plan_count;             /* number of `plans` */
    mscclpp_kin_t *kin;         /* agreements of the ranks of several nodes (team/kin.h); NULL: not kept */
    uint64_t park_key;          /* key of the team among parked teams (team/park.h); 0: the team is never taken over */

    /* Used by team.c after the team has ended. */
    mscclpp_team_t *next_ended;
    uint64_t reports;     /* number of ended operations that kernels had reported when the team ended; for graphs */
    char *kept_label;     /* a copy of the label, as the creator of the team frees the label; NULL: none */
    bool has_told_late;   /* the log says already that a graph was launched after the end */
    void *engine_memory;  /* the engines' memory, while peers may still map it; NULL: none */
    void *unused_scratch; /* kept while peers may still map it; NULL: none */
};

/* team.c: frees those ended teams whose memory no peer maps any more and no graph uses. */
void mscclpp_team_reap(void);

/*
 * fail.c: marks the team as broken, makes its kernels leave, and tells the peers the reason. Does this only once.
 * Returns `status`.
 */
mscclpp_status_t mscclpp_team_fail(mscclpp_team_t *team, mscclpp_status_t status);

/*
 * Marks the team as broken, as mscclpp_team_fail does, for call `call` of a collective that has failed before it
 * reached the team. Peers may still be in the previous call. They are told which call has failed, and so complete the
 * previous one, unless they have waited in it for long (LATER_FAILURE_SECONDS in group/wait.c). If `peer_reports` is
 * true, another rank has caused the failure and tells all ranks; this rank then tells none.
 */
mscclpp_status_t mscclpp_team_fail_call(mscclpp_team_t *team, uint64_t call, const char *collective,
                                        mscclpp_status_t status, bool peer_reports);

/*
 * Logs that a broken team refuses a call of the collective group.collective, and returns what the call returns. Every
 * later call of such a team does only this.
 */
mscclpp_status_t mscclpp_team_refuse_call(const mscclpp_team_t *team, uint64_t call);

/*
 * renew.c: reserves `epochs` more packet flags. If they would exceed the limit, all ranks meet, clear their packet
 * areas and start flags again at 0. All ranks call this function at the same point. `stream` is the stream of the
 * team's kernels. If `stream` is NULL, uses the runner's stream, and takes one if the task has none. After an error the
 * caller must break the team, since peers may wait in this function.
 */
mscclpp_status_t mscclpp_team_reserve_epochs(mscclpp_team_t *team, mscclpp_gpu_stream_t *stream, uint64_t epochs);

#endif
