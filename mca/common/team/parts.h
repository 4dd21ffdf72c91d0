/* What the files of the team and of the task share; nothing outside mca/common includes it. */
#ifndef MCA_COMMON_TEAM_PARTS_H
#define MCA_COMMON_TEAM_PARTS_H

#include <pthread.h>
#include <time.h>

#include "mca/common/algo/algo.h"
#include "mca/common/group/group.h"
#include "mca/common/engine/engine.h"
#include "mca/common/fabric/fabric.h"
#include "mca/common/run/linger.h"
#include "mca/common/gpu/mapping.h"
#include "mca/common/run/repeats.h"
#include "mca/common/team/team.h"

/* A mapping of a peer's user buffer in use by a launch that may still run. */
typedef struct {
    mscclpp_mapping_t *mapping;
    uint64_t launch;
} mscclpp_team_hold_t;

struct mscclpp_team {
    mscclpp_group_t group;
    const mscclpp_gpu_ops_t *gpu;
    mscclpp_protocol_t protocol; /* rank 0's */
    mscclpp_layout_t layout;
    mscclpp_mapping_limit_t mapping_limit;
    int device;
    bool stuck;           /* a kernel may still run or peers may still write: nothing they use is ever freed */
    bool ll128;           /* links to all peers keep lines of 128 bytes whole; equal on all ranks */
    uint32_t block_limit; /* see mscclpp_select_input_t; equal on all ranks */
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE];
    uint64_t server;        /* of that GPU, see mscclpp_gpu_info_t */
    uint32_t gpu_users;     /* processes on that GPU that this rank knows of */
    uint32_t gpu_strangers; /* those of them that have another server */
    bool crowded;           /* processes share a GPU, whether by turns or not; equal on all ranks, as is: */
    bool one_gpu;           /* all ranks, of which there are several, are on one */

    mscclpp_gpu_stream_t *stream; /* of the task in hand, from the pool; NULL between tasks */
    char *scratch;                /* this rank's, in device memory */
    uint64_t full_size;           /* scratch_size, once larger messages come; 0: nothing more will come */
    uint64_t small_max;           /* the largest message until then */
    char *peer_scratch[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_gpu_handle_t peer_handle[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_mailbox_t *mailbox;        /* as the host sees it */
    mscclpp_dev_mailbox_t *device_mailbox; /* as kernels see it */

    mscclpp_fabric_t *fabric; /* NULL: all ranks are on one node */

    uint64_t launches; /* operations started on the device; the mailbox counts those that ended */
    uint32_t tellers;  /* blocks that tell of the last one's end */
    mscclpp_linger_t linger;
    mscclpp_repeats_t repeats;
    uint64_t epochs; /* packet flags used since the last renewal */
    const char *last_algorithm;

    bool engines;             /* copy engines may serve blocking calls; equal on all ranks */
    mscclpp_engine_t *engine; /* NULL until they first do */
    /* What the host has to move on while a kernel runs, called over and over by the wait for it; NULL: nothing. */
    mscclpp_status_t (*pump)(mscclpp_team_t *team);

    mscclpp_team_hold_t *holds; /* oldest first */
    int hold_count;
    int hold_last; /* where those of the last exchange begin */
    int hold_capacity;

    uint64_t park_key; /* see team/park.h; 0: it is never taken over */

    /* team.c: once it has ended. */
    mscclpp_team_t *next_remains;
    void *engine_memory; /* that peers may still map; NULL: none */
    void *given_up;      /* likewise, scratch */
};

/* team.c: frees scratch of ended teams that every peer has closed. */
void mscclpp_team_reap(void);

/* team.c: closes the mappings of the peers' scratch. */
void mscclpp_team_close_peers(mscclpp_team_t *team);

/*
 * setup/node.c: the team of the ranks of `oob`, which are on one node. `nodes` NULL: it is whole; else it becomes a
 * part of one over several nodes. *own_p, written in any case, is this rank's own trouble, if it has any.
 */
mscclpp_status_t mscclpp_team_create_on_node(const mscclpp_team_params_t *params, const mscclpp_oob_t *oob,
                                             const mscclpp_nodes_t *nodes, mscclpp_status_t *own_p,
                                             mscclpp_team_t **team_p);

/*
 * Lets a kernel of one block on each rank meet those of the others, `rounds` times, and says how long the shortest
 * meeting but the first took if there are several. Fills in the arguments that all calls share. For bring-up: a failure
 * tells the peers.
 */
mscclpp_status_t mscclpp_team_probe(mscclpp_team_t *team, mscclpp_dev_kernel_t kernel, uint32_t nthreads,
                                    mscclpp_dev_args_t *args, int rounds, double *seconds_p);

/*
 * setup/ll128.c: finds out whether two-phase packets may be LL128, the last step of bring-up; called by all ranks
 * alike. `uuids` are those of the ranks' GPUs, so many bytes apart; `shared`: ranks may have to take turns on one. A
 * link that cannot carry LL128 is no failure. *own_p is this rank's own trouble.
 */
mscclpp_status_t mscclpp_team_try_ll128(mscclpp_team_t *team, const unsigned char *uuids, size_t stride, bool shared,
                                        mscclpp_status_t *own_p);

/*
 * Looks at a launch in the team's stream whose end is overdue: one that crashed never writes the mailbox. An error is
 * logged.
 */
mscclpp_status_t mscclpp_team_look_at_kernel(const mscclpp_team_t *team, const char *what);

/* fail.c: marks the team as broken and tells the peers why, once. Returns the status. */
mscclpp_status_t mscclpp_team_fail(mscclpp_team_t *team, mscclpp_status_t status);

/*
 * run/launch.c: takes a stream from the pool for the task in hand, unless it has one already, and gives it back unless
 * its kernel is stuck.
 */
mscclpp_status_t mscclpp_team_take_stream(mscclpp_team_t *team);
void mscclpp_team_give_stream(mscclpp_team_t *team);

/* Until all that has been queued in the stream taken has ended. In a fiber others go on meanwhile. */
mscclpp_status_t mscclpp_team_await_stream(mscclpp_team_t *team);

/*
 * Blocks of a kernel that nobody waits for yet, at most: those of a few communicators run beside one that somebody does
 * wait for. 0: there is no limit.
 */
uint32_t mscclpp_team_early_blocks(const mscclpp_team_t *team);

/* Waits until there is room for so many blocks of such a kernel beside the others', and gives it back. */
mscclpp_status_t mscclpp_team_enter_early(mscclpp_team_t *team, uint32_t blocks, uint64_t bytes);
void mscclpp_team_leave_early(const mscclpp_team_t *team, uint32_t blocks);

/* The kernel arguments that all calls share. */
void mscclpp_team_fill_args(const mscclpp_team_t *team, mscclpp_dev_args_t *args);

/*
 * Starts a kernel in the stream of an application and returns; or, if `stream` is NULL, has it done by a lingering one
 * or in a stream of the team's own, and waits for the mailbox to report its end. `what` and args->bytes go into
 * messages.
 */
mscclpp_status_t mscclpp_team_launch(mscclpp_team_t *team, mscclpp_gpu_stream_t *stream,
                                     const mscclpp_dev_launch_t *launch, const char *what);

/* Counts an operation that was started, of whose end so many blocks tell. */
void mscclpp_team_note_launch(mscclpp_team_t *team, uint32_t blocks);

/* The last operation started on the device has ended. */
bool mscclpp_team_has_ended(const mscclpp_team_t *team);

/* The kernels' own word on how they ended; logs a failure. */
mscclpp_status_t mscclpp_team_check_mailbox(const mscclpp_team_t *team, const char *what);

/*
 * Makes room for `epochs` more flags: where they would pass the limit, all ranks meet, clear their packet areas and
 * begin again at 0. Called at the same point by all ranks; `stream` is that of the team's kernels, NULL for one of its
 * own.
 */
mscclpp_status_t mscclpp_team_reserve_epochs(mscclpp_team_t *team, mscclpp_gpu_stream_t *stream, uint64_t epochs);

/*
 * run/buffers.c: maps the buffers of all ranks. *mapped_p is agreed by all: false if any buffer cannot be mapped. What
 * the ranks ask of the call is compared: MSCCLPP_ERR_INVALID on all of them, logged, if that differs.
 */
mscclpp_status_t mscclpp_team_exchange(mscclpp_team_t *team, const void *in, void *out, uint64_t bytes,
                                       const char **peer_in, char **peer_out, bool *mapped_p);

/* Ties the mappings of the last exchange to the launch that comes next. */
void mscclpp_team_hold_mappings(mscclpp_team_t *team, mscclpp_mapping_t **mappings, int count);

/* Those of the last exchange are in use, or no longer, whatever launches have ended. */
void mscclpp_team_keep_mappings(mscclpp_team_t *team, bool in_use);

/* Lets go of mappings whose launches have ended; all of them if `all` is set. */
void mscclpp_team_release_mappings(mscclpp_team_t *team, bool all);

#endif
