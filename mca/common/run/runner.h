/* Starts the kernels of a team's rank and sees them end. */
#ifndef MCA_COMMON_RUN_RUNNER_H
#define MCA_COMMON_RUN_RUNNER_H

#include "mca/common/algo/algo.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/gpu/mapping.h"
#include "mca/common/group/group.h"
#include "mca/common/run/linger.h"
#include "mca/common/run/repeats.h"

/* A mapping of a peer's user buffer in use by a launch that may still run. */
typedef struct {
    mscclpp_mapping_t *mapping;
    uint64_t launch;
} mscclpp_runner_hold_t;

struct mscclpp_runner {
    mscclpp_group_t *group;
    const mscclpp_gpu_ops_t *gpu;
    int device;
    mscclpp_layout_t layout;
    mscclpp_mapping_limit_t mapping_limit;
    bool stuck;                   /* a kernel may still run or peers may still write: nothing they use is ever freed */
    uint32_t block_limit;         /* see mscclpp_select_input_t; equal on all ranks */
    bool crowded;                 /* processes share a GPU, whether by turns or not; equal on all ranks */
    mscclpp_gpu_stream_t *stream; /* of the task in hand, from the pool; NULL between tasks */
    char *scratch;                /* this rank's, in device memory */
    char *peer_scratch[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_gpu_handle_t peer_handle[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_mailbox_t *mailbox;        /* as the host sees it */
    mscclpp_dev_mailbox_t *device_mailbox; /* as kernels see it */
    uint64_t launches;                     /* operations started on the device; the mailbox counts those that ended */
    uint32_t tellers;                      /* blocks that tell of the last one's end */
    mscclpp_linger_t linger;
    mscclpp_repeats_t repeats;
    uint64_t epochs; /* packet flags used since the last renewal */

    /* What the host has to move on while a kernel runs, called over and over by the wait for it; NULL: nothing. */
    mscclpp_status_t (*pump)(void *context);
    void *pump_context;

    mscclpp_runner_hold_t *holds; /* oldest first */
    int hold_count;
    int hold_last; /* where those of the last exchange begin */
    int hold_capacity;
};

/*
 * Takes a stream from the pool for the task in hand, unless it has one already, and gives it back unless its kernel is
 * stuck.
 */
mscclpp_status_t mscclpp_runner_take_stream(mscclpp_runner_t *runner);
void mscclpp_runner_give_stream(mscclpp_runner_t *runner);

/* Until all that has been queued in the stream taken has ended. In a fiber others go on meanwhile. */
mscclpp_status_t mscclpp_runner_await_stream(mscclpp_runner_t *runner);

/*
 * early.c: blocks of a kernel that nobody waits for yet, at most: those of a few communicators run beside one that
 * somebody does wait for. 0: there is no limit.
 */
uint32_t mscclpp_runner_early_blocks(const mscclpp_runner_t *runner);

/* Waits until there is room for so many blocks of such a kernel beside the others', and gives it back. */
mscclpp_status_t mscclpp_runner_enter_early(mscclpp_runner_t *runner, uint32_t blocks, uint64_t bytes);
void mscclpp_runner_leave_early(const mscclpp_runner_t *runner, uint32_t blocks);

/* The kernel arguments that all calls share. */
void mscclpp_runner_fill_args(const mscclpp_runner_t *runner, mscclpp_dev_args_t *args);

/*
 * Starts a kernel in the stream of an application and returns; or, if `stream` is NULL, has it done by a lingering one
 * or in a stream of the team's own, and waits for the mailbox to report its end. `what` and args->bytes go into
 * messages.
 */
mscclpp_status_t mscclpp_runner_launch(mscclpp_runner_t *runner, mscclpp_gpu_stream_t *stream,
                                       const mscclpp_dev_launch_t *launch, const char *what);

/* Counts an operation that was started, of whose end so many blocks tell. */
void mscclpp_runner_note_launch(mscclpp_runner_t *runner, uint32_t blocks);

/* The last operation started on the device has ended. */
bool mscclpp_runner_has_ended(const mscclpp_runner_t *runner);

/* The kernels' own word on how they ended; logs a failure. */
mscclpp_status_t mscclpp_runner_check_mailbox(const mscclpp_runner_t *runner, const char *what);

/*
 * Looks at a launch in the team's stream whose end is overdue: one that crashed never writes the mailbox. An error is
 * logged.
 */
mscclpp_status_t mscclpp_runner_check_kernel(const mscclpp_runner_t *runner, const char *what);

/* Closes the mappings of the peers' scratch. */
void mscclpp_runner_close_peers(mscclpp_runner_t *runner);

/*
 * buffers.c: maps the buffers of all ranks. *mapped_p is agreed by all: false if any buffer cannot be mapped. What
 * the ranks ask of the call is compared: MSCCLPP_ERR_INVALID on all of them, logged, if that differs.
 */
mscclpp_status_t mscclpp_runner_exchange(mscclpp_runner_t *runner, const void *in, void *out, uint64_t bytes,
                                         const char **peer_in, char **peer_out, bool *mapped_p);

/* Ties the mappings of the last exchange to the launch that comes next. */
void mscclpp_runner_hold_mappings(mscclpp_runner_t *runner, mscclpp_mapping_t **mappings, int count);

/* Those of the last exchange are in use, or no longer, whatever launches have ended. */
void mscclpp_runner_keep_mappings(mscclpp_runner_t *runner, bool in_use);

/* Lets go of mappings whose launches have ended; all of them if `all` is set. */
void mscclpp_runner_release_mappings(mscclpp_runner_t *runner, bool all);

#endif
