/* The runner: starts the kernels of a team's rank and waits for their end. */
#ifndef MCA_COMMON_RUN_RUNNER_H
#define MCA_COMMON_RUN_RUNNER_H

#include "mca/common/algo/algo.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/gpu/mapping.h"
#include "mca/common/group/group.h"
#include "mca/common/run/linger.h"
#include "mca/common/run/repeats.h"

/* The size of a buffer that has room for the text of any failure, in bytes. */
#define MSCCLPP_RUNNER_FAILURE_TEXT 320

/* A mapping of a peer's user buffer. It is kept until launch number `launch`, which uses it, has ended. */
typedef struct {
    mscclpp_mapping_t *mapping;
    uint64_t launch;
} mscclpp_runner_hold_t;

typedef struct mscclpp_runner_stand_in mscclpp_runner_stand_in_t; /* defined in stand_ins.c */

/*
 * The buffers of all ranks for queued operations. The buffers are mapped as long as a request or a graph uses them. The
 * owner of a request frees it when no operation of the request is in progress. The application frees graphs.
 */
typedef struct mscclpp_mapped mscclpp_mapped_t;
struct mscclpp_mapped {
    mscclpp_mapped_t *next; /* in the runner's list */
    mscclpp_runner_t *runner;
    uint64_t users; /* number of requests, graphs and calls that use the buffers, + 1 while this is in the list */
    const void *in; /* this rank's input */
    void *out;      /* this rank's output */
    const char *peer_in[MSCCLPP_DEV_MAX_RANKS]; /* all ranks' buffers, at the addresses for this rank's kernels */
    char *peer_out[MSCCLPP_DEV_MAX_RANKS];
    /* If blocks differ in size: the place of this rank's block in the output of each rank. */
    mscclpp_dev_runs_t place[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_mapping_t *mappings[2 * MSCCLPP_DEV_MAX_RANKS];
    int count; /* number of mappings */
};

/* The number of exchanges of early calls whose buffers are kept: see mca/common/run/known.h. */
#define MSCCLPP_RUNNER_KNOWN 8

typedef struct mscclpp_known mscclpp_known_t; /* defined in known.c */

/* The number of units that fit into each area of a scratch, for kernel arguments. */
typedef struct {
    uint64_t packet_half; /* this size and the next one are of the layout that the capacities are for */
    uint64_t put_size;
    uint32_t oneshot, twophase, ll128, put;
} mscclpp_runner_capacities_t;

struct mscclpp_runner {
    mscclpp_group_t *group;
    const mscclpp_gpu_ops_t *gpu;
    int device;              /* number of this rank's device */
    mscclpp_layout_t layout; /* of the scratch */
    mscclpp_runner_capacities_t capacities;
    mscclpp_mapping_limit_t mapping_limit; /* the number of mappings of peers' buffers that may be kept */
    bool stuck;            /* kernels may still run or peers still write, so what they use is never freed */
    uint32_t block_limit;  /* as in mscclpp_select_input_t; equal on all ranks */
    bool shares_gpu;       /* processes share a GPU, at the same time or in turns; equal on all ranks */
    bool takes_turns;      /* processes share a GPU in turns, so their kernels do not run at the same time; equal on all
                              ranks */
    bool serves_queue;     /* the team serves queued operations only: team/queue.h */
    bool is_recording;     /* operations are being recorded in a graph, and do not start now */
    uint32_t queue_blocks; /* the maximum number of blocks of a queued operation; 0: no limit */
    mscclpp_gpu_stream_t *stream; /* stream of the current task, from the pool; NULL between tasks */
    char *scratch;                /* this rank's scratch, in device memory */
    uint64_t *running; /* counters of queued operations, in the first scratch; NULL: that is the scratch in use */
    char *peer_scratch[MSCCLPP_DEV_MAX_RANKS]; /* all ranks' scratch, at the addresses for this rank's kernels */
    mscclpp_mapping_t *peer_mapping[MSCCLPP_DEV_MAX_RANKS]; /* mappings of `peer_scratch`; NULL for this rank */
    mscclpp_dev_mailbox_t *mailbox;                         /* the mailbox at the host's address */
    mscclpp_dev_mailbox_t *device_mailbox;                  /* the mailbox at the kernels' address */
    uint64_t launches; /* number of operations started on the device; the mailbox counts the ended ones */
    /*
     * Number of operations in graphs that still exist, whose memory must be kept. Other files read it by
     * mscclpp_runner_is_captured.
     */
    uint64_t captured;
    mscclpp_runner_stand_in_t *stand_ins[2]; /* memory of operations in graphs, for outputs and for inputs */
    uint32_t reporting_blocks; /* number of blocks that report the end of the last operation in the mailbox */
    mscclpp_linger_t linger;
    mscclpp_repeats_t repeats;
    uint64_t epochs; /* number of epochs (packet flags) used since the scratch was last cleared */

    /*
     * A function by which the host makes progress that a running kernel depends on, such as the proxy's. The wait for
     * the kernel calls it repeatedly. NULL: there is none.
     */
    mscclpp_status_t (*pump)(void *context);
    void *pump_context;

    mscclpp_mapped_t *mapped;     /* buffers that queued operations may use */
    mscclpp_runner_hold_t *holds; /* mappings in use, the oldest first */
    int hold_count;
    int hold_last_exchange; /* index of the first mapping of the last exchange */
    int hold_capacity;

    /* Of early calls that map buffers: */
    mscclpp_known_t *known[MSCCLPP_RUNNER_KNOWN]; /* buffers of earlier exchanges; NULL: a free entry */
    unsigned next_known;                          /* number of entries that have been filled */
    uint32_t map_pause;    /* number of calls that map nothing, because others could not; equal on all ranks */
    uint32_t map_failures; /* number of exchanges in a row whose buffers could not be mapped; equal on all ranks */
};

/*
 * mscclpp_runner_take_stream takes a stream from the pool for the current task, unless the task has one. Returns the
 * error of the pool, after which the task has no stream. mscclpp_runner_give_stream gives the stream back. If a kernel
 * in the stream has not ended, it leaks the stream instead.
 */
mscclpp_status_t mscclpp_runner_take_stream(mscclpp_runner_t *runner);
void mscclpp_runner_give_stream(mscclpp_runner_t *runner);

/*
 * Waits until all work in the task's stream has ended. In a fiber, other fibers run in the meantime. Returns the error
 * of the stream if work in it has failed.
 */
mscclpp_status_t mscclpp_runner_await_stream(mscclpp_runner_t *runner);

/*
 * early.c: returns the maximum number of blocks of an early kernel; 0: no limit. With this limit, the early kernels of
 * a few processes can run beside a kernel that a rank waits for.
 */
uint32_t mscclpp_runner_early_blocks(const mscclpp_runner_t *runner);

/*
 * Returns how far the end of a queued kernel has to release (args->release). The kernel stores only in this rank's
 * results, or it tells the peers itself of what it has stored in theirs.
 */
mscclpp_dev_release_t mscclpp_runner_queued_release(const mscclpp_runner_t *runner);

/* Fills in the kernel arguments that all calls share. The caller sets the buffers, size, type and operation. */
void mscclpp_runner_fill_args(mscclpp_runner_t *runner, mscclpp_dev_args_t *args);

/*
 * Starts an operation. If `stream` is a stream of the application, launches the kernel there and returns. If `stream`
 * is NULL, rings the lingering kernel, or launches a kernel in a stream of the team, and waits until the mailbox
 * reports the end. A failure of any rank ends the wait; the kernel is then told to leave, and if it does not leave, the
 * runner is marked as `stuck`. Returns the first error: of the launch, of the wait, or MSCCLPP_ERR_TIMEOUT if the
 * kernel gave up waiting for a rank. Messages contain `operation_name` and args->bytes.
 */
mscclpp_status_t mscclpp_runner_launch(mscclpp_runner_t *runner, mscclpp_gpu_stream_t *stream,
                                       const mscclpp_dev_launch_t *launch, const char *operation_name);

/*
 * Starts an operation that uses the buffers of all ranks (`mapped`) in a stream of the application. NULL: the operation
 * uses no buffers of peers. If the operation is recorded in a graph, the mappings are kept as long as the graph, and
 * the operation is not counted. Returns the error of the launch, after which nothing has been launched.
 */
mscclpp_status_t mscclpp_runner_launch_mapped(mscclpp_runner_t *runner, mscclpp_gpu_stream_t *stream,
                                              const mscclpp_dev_launch_t *launch, mscclpp_mapped_t *mapped);

/* Returns true if a graph with operations of this runner still exists, or may exist because the runtime cannot tell. */
static inline bool mscclpp_runner_is_captured(const mscclpp_runner_t *runner)
{
    return __atomic_load_n(&runner->captured, __ATOMIC_ACQUIRE) != 0;
}

/*
 * launch.c: disables the operations of graphs that were captured with this scratch, because the graphs may outlive the
 * runner. A disabled operation ends at once, and uses only this rank's scratch and mailbox. No operation may run during
 * the call. Returns the error of the GPU runtime, after which the operations are not disabled.
 */
mscclpp_status_t mscclpp_runner_disable(mscclpp_runner_t *runner, char *scratch, const mscclpp_layout_t *layout);

/*
 * stand_ins.c: mscclpp_runner_get_stand_in sets *memory_p to device memory of at least `bytes` bytes, which an
 * operation in a graph uses instead of its input (`is_input`) or its output. Operations of a runner run one after the
 * other, so all of them get the same memory. Returns the error of the allocation, after which *memory_p is not set.
 * mscclpp_runner_free_stand_ins frees all stand-ins, once no graph uses them.
 */
mscclpp_status_t mscclpp_runner_get_stand_in(mscclpp_runner_t *runner, bool is_input, uint64_t bytes, void **memory_p);
void mscclpp_runner_free_stand_ins(mscclpp_runner_t *runner);

/* Counts an operation that was started, and notes that `blocks` blocks will report its end. */
void mscclpp_runner_note_launch(mscclpp_runner_t *runner, uint32_t blocks);

/* Returns true if the last operation that was started on the device has ended. */
bool mscclpp_runner_has_ended(const mscclpp_runner_t *runner);

/*
 * Reads the mailbox. Returns MSCCLPP_ERR_TIMEOUT if a kernel gave up waiting for a rank, and MSCCLPP_OK otherwise.
 * After a failure, writes a message to `text`, of `size` bytes, that names that rank and the operation
 * (`operation_name`). Logs nothing.
 */
mscclpp_status_t mscclpp_runner_read_failure(const mscclpp_runner_t *runner, const char *operation_name, char *text,
                                             size_t size);

/* Returns the rank of the communicator that a kernel gave up waiting for, or -1 if no kernel has given up. */
int mscclpp_runner_find_awaited(const mscclpp_runner_t *runner);

/* Reads a failure as mscclpp_runner_read_failure does, and logs it. */
mscclpp_status_t mscclpp_runner_check_mailbox(const mscclpp_runner_t *runner, const char *operation_name);

/*
 * Asks the GPU runtime about an operation whose end is overdue, because a kernel that has crashed never writes to the
 * mailbox. Returns MSCCLPP_OK if the operation may still end, MSCCLPP_ERR_DEVICE if its kernel has ended without a
 * report, or the error of the runtime.
 */
mscclpp_status_t mscclpp_runner_check_kernel(const mscclpp_runner_t *runner, const char *operation_name);

/* Closes the mappings of the peers' scratch. */
void mscclpp_runner_close_peers(mscclpp_runner_t *runner);

/*
 * buffers.c: exchanges and maps the buffers of all ranks, and fills in `peer_in` and `peer_out` by rank. *mapped_p,
 * equal on all ranks, is false if any buffer cannot be mapped or if a rank is not willing. This rank then has no
 * mapping. Otherwise the mappings are held until the next launch has ended. Also compares the arguments of the call on
 * all ranks. If they differ, logs this and returns MSCCLPP_ERR_INVALID on all ranks. After an error *mapped_p is not
 * set, and nothing is mapped.
 */
mscclpp_status_t mscclpp_runner_exchange(mscclpp_runner_t *runner, const void *in, void *out, uint64_t bytes,
                                         bool is_willing, const char **peer_in, char **peer_out, bool *mapped_p);

/*
 * Maps the buffers of all ranks for queued operations; NULL means a buffer that no peer uses. Waits for the other ranks
 * for at most mscclpp_group_exchange_patience. *mapped_p is NULL on all ranks if a rank is not willing, if a buffer
 * cannot be mapped, or if the ranks pass different arguments. *mapped_p is NULL, too, if a rank has not come in time;
 * the group then makes no more such exchanges (group->gave_up). Returns the error of the exchange, after which
 * *mapped_p is NULL.
 *
 * `places` has for each rank the place of its block in this rank's output; from it the other ranks fill in their
 * result's `place`. NULL, on all ranks: blocks do not differ in size, or no peer writes to the output.
 *
 * The caller gives the result back by mscclpp_mapped_drop, and must not use the buffers for new operations after that.
 * Any thread may call mscclpp_mapped_drop at any time, because it does not call the GPU runtime.
 */
mscclpp_status_t mscclpp_runner_map_buffers(mscclpp_runner_t *runner, const void *in, void *out, uint64_t bytes,
                                            const mscclpp_dev_runs_t *places, bool is_willing,
                                            mscclpp_mapped_t **mapped_p);
void mscclpp_mapped_drop(mscclpp_mapped_t *mapped);

/* Logs that the ranks did not come in time to an exchange for a captured call (group->gave_up). */
void mscclpp_runner_report_gave_up(const mscclpp_runner_t *runner);

/*
 * Maps a buffer of a peer for this rank's kernels, and sets *address_p. Appends the mapping to the *count_p mappings in
 * `mappings`, which the caller has to give back. Returns the error of the mapping, with nothing changed. If the memory
 * is not mapped yet, closes the fiber first, because the GPU runtime may take long to map memory.
 */
mscclpp_status_t mscclpp_runner_map_buffer(const mscclpp_runner_t *runner, const mscclpp_gpu_handle_t *handle,
                                           mscclpp_mapping_t **mappings, int *count_p, char **address_p);

/*
 * Makes room in the list of held mappings for `count` more. Returns false, with a warning logged, if there is no
 * memory. The ranks then have to use an algorithm without mapped buffers.
 */
bool mscclpp_runner_reserve_holds(mscclpp_runner_t *runner, int count);

/* Keeps the mappings of the last exchange, for which room is reserved, until the next launch has ended. */
void mscclpp_runner_hold_mappings(mscclpp_runner_t *runner, mscclpp_mapping_t **mappings, int count);

/*
 * With `in_use`, keeps the mappings of the last exchange even after launches have ended. Without `in_use`, lets the
 * next mscclpp_runner_release_mappings release them. mscclpp_runner_release_mappings must not run between the exchange
 * and the last call of this function, because it moves the mappings in their list.
 */
void mscclpp_runner_keep_mappings(mscclpp_runner_t *runner, bool in_use);

/*
 * Releases the mappings whose launches have ended, and the mappings that are no longer in use. With `all`, releases all
 * mappings.
 */
void mscclpp_runner_release_mappings(mscclpp_runner_t *runner, bool all);

#endif
