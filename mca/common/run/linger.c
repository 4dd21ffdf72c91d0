#include "mca/common/base/clock.h"
#include "mca/common/run/linger.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/types/linger.h"
#include "device/types/plan.h"
#include "mca/common/base/log.h"
#include "mca/common/run/bell.h"
#include "mca/common/run/runner.h"

/* Kernels linger only on devices with numbers below this one. */
#define MAX_DEVICES 64
#define NS_PER_US 1000.0

/*
 * On a GPU, an operation may need BLOCKS_FACTOR times as many blocks as the parameter linger_blocks says. On a GPU that
 * processes share, the factor is SHARED_BLOCKS_FACTOR, because a lingering kernel must not take half of such a GPU.
 */
#define BLOCKS_FACTOR 4u
#define SHARED_BLOCKS_FACTOR 2u

/*
 * The maximum size of an operation, in bytes, that one block serves faster than several blocks, which have to relay the
 * doorbell.
 */
#define ONE_BLOCK_BYTES_MAX 8192u
#define TWIN_ONE_BLOCK_BYTES_MAX 256u

/*
 * With at most BRIEF_RANKS_MAX ranks, one block of the kernel serves data of up to BRIEF_BYTES_MAX bytes for each peer
 * in little code (device/kern/linger_brief_coll.h).
 */
#define BRIEF_BYTES_MAX 4096u
#define BRIEF_RANKS_MAX 8u

/* The maximum number of ranks whose long lists of blocks fit into the first line of the doorbell. */
#define LONG_LISTS_RANKS_MAX 2

/*
 * A call follows "at once" if it comes within 1 / AT_ONCE_PART of the kernel's idle time. The rest of the idle time is
 * a margin. It covers the report of the end on its way to the host and the doorbell on its way back (some 3 us),
 * exchanges of buffers between the ranks, and delays of the host.
 */
#define AT_ONCE_PART 5

/*
 * Seconds to wait for a lingering kernel to leave, before memory is freed and before a launch. It takes microseconds.
 */
#define LEAVE_SECONDS 10.0
#define LEAVE_SECONDS_BEFORE_LAUNCH 100e-6

/*
 * The team whose kernel lingers on each device. With `side_by_side`, kernels of any number of teams linger on a device,
 * and there are no owners. Guarded by `lock`.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_runner_t *owners[MAX_DEVICES];
static bool side_by_side;

/* This process has queued a kernel in a stream of the application. Such a kernel may wait for other ranks. */
static bool has_enqueued;

/* Stores only the first time. Later stores would take the cache line from other threads that read it. */
void mscclpp_linger_note_enqueue(void)
{
    if (!__atomic_load_n(&has_enqueued, __ATOMIC_RELAXED)) {
        __atomic_store_n(&has_enqueued, true, __ATOMIC_RELAXED);
    }
}

void mscclpp_linger_share_devices(bool share)
{
    pthread_mutex_lock(&lock);
    side_by_side = share;
    pthread_mutex_unlock(&lock);
}

/* Returns `blocks`, reduced to the maximum for lingering kernels and to the runner's block_limit (0: no limit). */
static uint32_t clamp_blocks(const mscclpp_runner_t *runner, uint32_t blocks)
{
    blocks = blocks > MSCCLPP_DEV_LINGER_BLOCKS ? MSCCLPP_DEV_LINGER_BLOCKS : blocks;
    return runner->block_limit != 0 && blocks > runner->block_limit ? runner->block_limit : blocks;
}

void mscclpp_linger_init(mscclpp_runner_t *runner, const mscclpp_config_t *config, bool takes_turns, bool spans)
{
    mscclpp_linger_t *linger = &runner->linger;
    const bool on_twin = runner->group->on_twin;
    const uint32_t blocks = on_twin ? (uint32_t)config->twin_blocks : (uint32_t)config->linger_blocks;
    const uint32_t gpu_factor = runner->shares_gpu ? SHARED_BLOCKS_FACTOR : BLOCKS_FACTOR;

    linger->is_always = strcmp(config->linger, "on") == 0;
    linger->is_allowed = runner->device >= 0 && runner->device < MAX_DEVICES && (runner->group->size > 1 || spans) &&
                         strcmp(config->linger, "off") != 0 &&
                         (linger->is_always || (!on_twin && !takes_turns && !runner->group->is_traced));
    linger->window_ns = (uint64_t)(config->linger_window * NS_PER_US);
    linger->idle_ns = (uint64_t)(config->linger_idle * NS_PER_US);
    linger->max_bytes = config->linger_max;
    linger->one_block_max_bytes = on_twin ? TWIN_ONE_BLOCK_BYTES_MAX : ONE_BLOCK_BYTES_MAX;
    /* On the twin, packets get one block less than other operations, so that tests cover both widths. */
    linger->wide_blocks = clamp_blocks(runner, on_twin && blocks > 2 ? blocks - 1 : blocks);
    linger->max_blocks = clamp_blocks(runner, on_twin ? blocks : gpu_factor * blocks);
    linger->nthreads = on_twin ? (uint32_t)config->twin_threads : MSCCLPP_DEV_MAX_THREADS;
    /*
     * Clusters start faster, but only when enough adjacent multiprocessors are free. On a shared GPU, kernels of other
     * ranks or threads may leave only multiprocessors free that are not adjacent, and may wait for this kernel. So
     * kernels form clusters only if neither ranks nor threads share the GPU. On a GPU that is not shared, all work ends
     * without other ranks, and then adjacent multiprocessors are free. Only queued kernels of this process may wait for
     * other ranks, so no kernel forms a cluster after the first queued kernel (`has_enqueued`).
     */
    linger->may_cluster = config->linger_cluster && !runner->group->meet_first && !runner->shares_gpu;
    mscclpp_linger_history_init(&linger->history);
    mscclpp_debug("%s: kernels of small calls %s", runner->group->oob.label,
                  linger->is_allowed ? "linger" : "do not linger");
}

/*
 * Tells the team's lingering kernel to leave. Does not wait. The caller holds the lock, so that no other thread allows
 * rings meanwhile.
 */
static void make_leave(mscclpp_runner_t *runner)
{
    uint64_t number = __atomic_exchange_n(&runner->linger.ringable, 0, __ATOMIC_RELAXED);

    if (number != 0) {
        __atomic_store_n(&runner->mailbox->bell[MSCCLPP_DEV_BELL_LEAVE], number, __ATOMIC_RELAXED);
    }
}

/*
 * Tells the team's lingering kernel to leave. Unless kernels linger side by side, also tells the kernel of the device's
 * owner to leave. With `becomes_owner`, this team is then the owner; otherwise the device has no owner. Does not wait.
 * The owner is stored atomically, because mscclpp_linger_clear reads it without the lock. The caller has checked that
 * the device's number is below MAX_DEVICES (`is_allowed` implies it).
 */
static void replace_owner(mscclpp_runner_t *runner, bool becomes_owner)
{
    mscclpp_runner_t **owner = &owners[runner->device];

    pthread_mutex_lock(&lock);
    make_leave(runner);
    if (!side_by_side) {
        if (*owner != NULL) {
            make_leave(*owner);
        }
        __atomic_store_n(owner, becomes_owner ? runner : NULL, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
}

void mscclpp_linger_clear(mscclpp_runner_t *runner)
{
    if (__atomic_load_n(&runner->linger.ringable, __ATOMIC_RELAXED) != 0 ||
        (runner->device >= 0 && runner->device < MAX_DEVICES &&
         __atomic_load_n(&owners[runner->device], __ATOMIC_RELAXED) != NULL)) {
        replace_owner(runner, false);
    }
}

/*
 * Allows rings of the lingering kernel with this number. If another team has taken the device since the launch, tells
 * the kernel to leave at once.
 */
static void allow_rings(mscclpp_runner_t *runner, uint64_t number)
{
    pthread_mutex_lock(&lock);
    __atomic_store_n(&runner->linger.ringable, number, __ATOMIC_RELAXED);
    if (!side_by_side && owners[runner->device] != runner) {
        make_leave(runner);
    }
    pthread_mutex_unlock(&lock);
}

/*
 * Returns the number of the last lingering kernel that has left; 0: none has left. The load acquires, because the
 * caller may then reuse or free memory that the kernel used.
 */
static uint64_t find_last_left(const mscclpp_runner_t *runner)
{
    return __atomic_load_n(&runner->mailbox->left, __ATOMIC_ACQUIRE);
}

/*
 * Returns the arguments with which a lingering kernel serves the operation's plan. NULL: the operation has no plan, or
 * no lingering kernel can serve the plan.
 */
static const mscclpp_dev_plan_args_t *find_lasting_plan(const mscclpp_dev_launch_t *launch)
{
    return launch->kernel == MSCCLPP_KERNEL_PLAN ? ((const mscclpp_dev_plan_args_t *)launch->args)->lasting : NULL;
}

/*
 * Returns true if one block of a lingering kernel serves an operation with packets faster than several. In collectives
 * other than all-reduce, a rank has one block of data for each peer.
 */
static bool suits_one_block(const mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_args_t *args = launch->args;
    const uint64_t bytes = mscclpp_bell_bytes(launch);

    if (!mscclpp_bell_is_coll(launch)) {
        return args->bytes <= runner->linger.one_block_max_bytes;
    }
    return bytes * (args->nranks - 1) <= runner->linger.one_block_max_bytes ||
           (!runner->group->on_twin && bytes <= BRIEF_BYTES_MAX && args->nranks <= BRIEF_RANKS_MAX);
}

/* Returns true if an all-reduce of `units` units with packets between nodes takes one epoch. */
static bool fits_nodes_packets(const mscclpp_dev_nodes_args_t *nodes, uint64_t units)
{
    const uint64_t shard_units = (units + nodes->shards - 1) / nodes->shards;
    const uint64_t slot_units =
        MSCCLPP_DEV_NODES_PACKET_UNITS(nodes->pattern, nodes->nnodes, nodes->packet_units, nodes->doubling.slots);

    return shard_units <= MSCCLPP_DEV_NODES_CAPACITY(nodes->common.packet_half, nodes->largest_node, slot_units);
}

/*
 * Returns true if a lingering kernel can serve the operation, whichever kernel lingers now.
 *
 * Operations with packets on one node are served only if they take one epoch. Their data are divided independently of
 * the grid, so ranks may have different grids.
 *
 * In all other operations, block i meets block i of the other ranks, so every rank must use the same number of blocks.
 * That is the number in `launch`, and the kernel must have at least as many blocks.
 */
static bool can_serve(const mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_args_t *args = launch->args;
    const uint64_t bytes = mscclpp_bell_bytes(launch), units = (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;

    if (!runner->linger.is_allowed || bytes > runner->linger.max_bytes) {
        return false;
    }
    /*
     * A ring passes lists of blocks only in the doorbell. If they do not fit, no ring could follow, and the kernel need
     * not linger. On GPUs, a ring saves less time than a kernel needs to read further lines of the doorbell.
     */
    if (mscclpp_bell_has_lists(launch) &&
        !(mscclpp_bell_lists_fit(launch) &&
          (runner->group->on_twin || args->nranks <= LONG_LISTS_RANKS_MAX || suits_one_block(runner, launch)))) {
        return false;
    }
    switch (launch->kernel) {
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT:
    case MSCCLPP_KERNEL_COLL_MOVE_BLOCKS:
    case MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS:
    case MSCCLPP_KERNEL_COLL_MOVE_PACKETS:
    case MSCCLPP_KERNEL_COLL_COMBINE_PACKETS:
        return units <= MSCCLPP_DEV_ONESHOT_CAPACITY(args->packet_half, args->nranks);
    case MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE:
        return (units + args->nranks - 1) / args->nranks <=
               MSCCLPP_DEV_TWOPHASE_CAPACITY(args->packet_half, args->nranks);
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT:
        return launch->nblocks <= runner->linger.max_blocks;
    case MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY:
        return launch->nblocks <= runner->linger.max_blocks && args->nranks <= MSCCLPP_DEV_LINGER_PEERS;
    case MSCCLPP_KERNEL_PLAN:
        return launch->nblocks <= runner->linger.max_blocks && find_lasting_plan(launch) != NULL &&
               !runner->group->spans;
    case MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS:
        return launch->nblocks <= runner->linger.max_blocks && fits_nodes_packets(launch->args, units);
    case MSCCLPP_KERNEL_ALLREDUCE_NODES:
        /* With many blocks, a launch of the kernel for the exact type is faster. The twin has no such kernels. */
        return launch->nblocks <= (runner->group->on_twin ? runner->linger.max_blocks : 1);
    default:
        return false;
    }
}

/* Returns true if the operation uses packets on one node. */
static bool uses_packets(const mscclpp_dev_launch_t *launch)
{
    return launch->kernel == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT || launch->kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE ||
           mscclpp_bell_is_coll(launch);
}

/* Returns the minimum number of blocks that can serve the operation. With packets, 2 means any number above 1. */
static uint32_t find_min_blocks(const mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch)
{
    if (!uses_packets(launch)) {
        return launch->nblocks;
    }
    return suits_one_block(runner, launch) || runner->linger.wide_blocks <= 1 ? 1 : 2;
}

/*
 * Returns the number of blocks of a lingering kernel that begins with this operation. A kernel that needs more than one
 * block gets at least `wide_blocks`, so that it can also serve later operations.
 */
static uint32_t choose_kernel_blocks(const mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch)
{
    const uint32_t min_blocks = find_min_blocks(runner, launch);

    return min_blocks > 1 && min_blocks < runner->linger.wide_blocks ? runner->linger.wide_blocks : min_blocks;
}

/*
 * Returns the number of the set that contains the peers' buffers of a zero-copy operation. If there is none, replaces
 * the oldest set. Kernels receive the sets when they are launched, so a new set reaches only later kernels. can_serve
 * has checked that a set has room for all ranks.
 */
static uint32_t find_or_make_set(mscclpp_linger_t *linger, const mscclpp_dev_zerocopy_args_t *args)
{
    const size_t size = sizeof(args->peer_in[0]) * args->common.nranks;
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_LINGER_SETS; ++i) {
        if (memcmp(linger->sets[i].in, args->peer_in, size) == 0 &&
            memcmp(linger->sets[i].out, args->peer_out, size) == 0) {
            linger->unknown_streak = 0;
            return i;
        }
    }
    i = linger->oldest_set;
    linger->oldest_set = (i + 1) % MSCCLPP_DEV_LINGER_SETS;
    memcpy(linger->sets[i].in, args->peer_in, size);
    memcpy(linger->sets[i].out, args->peer_out, size);
    linger->new_sets |= 1u << i;
    ++linger->unknown_streak;
    return i;
}

_Static_assert(MSCCLPP_DEV_BELL_VARIANT(MSCCLPP_DEV_BELL_ENCODE(0, 0, 0, 1, 0, MSCCLPP_DEV_NODES_HALVING)) ==
                   MSCCLPP_DEV_NODES_HALVING,
               "the doorbell's code has room for every pattern between nodes");

/*
 * Returns the variant for the doorbell's code. For a zero-copy operation, the variant is the number of the set of
 * buffers; makes the set if there is none. Between nodes, the variant is the pattern. For others, it is 0.
 */
static uint32_t choose_variant(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch)
{
    if (launch->kernel == MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY) {
        return find_or_make_set(&runner->linger, launch->args);
    }
    if (launch->kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES || launch->kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS) {
        return ((const mscclpp_dev_nodes_args_t *)launch->args)->pattern;
    }
    return 0;
}

/*
 * Returns the word CODE of the doorbell for a lingering kernel of `nblocks` blocks. One block or all blocks serve an
 * operation with packets.
 */
static uint32_t encode_bell(const mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch, uint32_t variant,
                            uint32_t nblocks)
{
    const mscclpp_dev_args_t *args = launch->args;
    const uint32_t min_blocks = find_min_blocks(runner, launch);
    const uint32_t serving_blocks = uses_packets(launch) && min_blocks > 1 ? nblocks : min_blocks;

    return MSCCLPP_DEV_BELL_ENCODE(launch->kernel, args->dtype, args->op, serving_blocks, args->release, variant);
}

/*
 * Returns the number of blocks that report the end of the operation with this word CODE. If several blocks serve it,
 * all blocks of the kernel report, even idle blocks: each must have read the relayed doorbell before the next doorbell
 * overwrites it.
 */
static uint32_t count_reporting_blocks(const mscclpp_linger_t *linger, uint32_t code)
{
    return MSCCLPP_DEV_BELL_BLOCKS(code) > 1 ? linger->nblocks : 1;
}

/*
 * Waits until the team's last lingering kernel has left, because until then its blocks use the relay and the team's
 * memory. Returns false if the kernel does not leave within `seconds`.
 */
static bool await_leaving(const mscclpp_runner_t *runner, double seconds)
{
    double deadline;

    if (find_last_left(runner) >= runner->linger.last_kernel) {
        return true;
    }
    deadline = mscclpp_now() + seconds;
    while (find_last_left(runner) < runner->linger.last_kernel) {
        if (mscclpp_now() > deadline) {
            return false;
        }
        sched_yield();
    }
    return true;
}

void mscclpp_linger_note_call(mscclpp_runner_t *runner)
{
    mscclpp_linger_t *linger = &runner->linger;

    if (linger->is_allowed && linger->last_end > 0) {
        const double gap_ns = 1e9 * (mscclpp_now() - linger->last_end);

        mscclpp_linger_history_note_call(&linger->history, gap_ns * AT_ONCE_PART < (double)linger->idle_ns);
    }
}

/*
 * Adds to the history how many calls the last lingering kernel served, once for each kernel. Called before the launch
 * that replaces that kernel. A missed ring (`was_missed`) counts as well: the call came, although too late for the
 * kernel.
 */
static void note_kernel(mscclpp_linger_t *linger, bool was_missed)
{
    if (linger->has_unnoted_rings) {
        mscclpp_linger_history_note_kernel(&linger->history, linger->rings - linger->rings_before + was_missed);
        linger->has_unnoted_rings = false;
    }
}

/*
 * Returns true if a kernel should linger after this operation. Lingering does not pay for zero-copy operations that use
 * more buffers than there are sets: a new kernel would have to replace the old one for each operation.
 */
static bool is_worthwhile(const mscclpp_linger_t *linger, const mscclpp_dev_launch_t *launch)
{
    return (linger->is_always || mscclpp_linger_history_says_stay(&linger->history)) &&
           (launch->kernel != MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY || linger->unknown_streak < 2);
}

/*
 * Fills in the arguments of a lingering kernel of `nblocks` blocks that begins with this operation. The cast to
 * mscclpp_dev_nodes_args_t is valid, because in a team that spans nodes can_serve accepts only kernels with those
 * arguments.
 */
static void fill_linger_args(const mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch, uint32_t variant,
                             uint32_t nblocks, mscclpp_dev_linger_args_t *linger_args)
{
    const mscclpp_linger_t *linger = &runner->linger;

    linger_args->spans = runner->group->spans;
    if (linger_args->spans) {
        linger_args->nodes = *(const mscclpp_dev_nodes_args_t *)launch->args;
    } else {
        linger_args->common = *(const mscclpp_dev_args_t *)launch->args;
        linger_args->common.bytes = mscclpp_bell_bytes(launch);
    }
    memcpy(linger_args->sets, linger->sets, sizeof(linger_args->sets));
    linger_args->plan = find_lasting_plan(launch);
    linger_args->plan_blocks = linger_args->plan != NULL ? launch->nblocks : 0;
    linger_args->number = runner->launches + 1;
    linger_args->window_ns = linger->window_ns;
    linger_args->idle_ns = linger->idle_ns;
    linger_args->cluster = linger->may_cluster && !__atomic_load_n(&has_enqueued, __ATOMIC_RELAXED);
    linger_args->coll = mscclpp_bell_coll(launch);
    linger_args->code = encode_bell(runner, launch, variant, nblocks);
}

/*
 * Launches a kernel that serves the operation and then lingers. If the previous lingering kernel does not leave in
 * time, launches an ordinary kernel instead and leaves *reporting_blocks_p unchanged. Returns the status of the launch.
 */
static mscclpp_status_t launch_lingering(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch, uint32_t variant,
                                         uint32_t *reporting_blocks_p)
{
    mscclpp_linger_t *linger = &runner->linger;
    mscclpp_dev_linger_args_t linger_args;
    mscclpp_dev_launch_t linger_launch;
    mscclpp_status_t status;

    linger_launch.kernel = MSCCLPP_KERNEL_LINGER;
    linger_launch.nblocks = choose_kernel_blocks(runner, launch);
    linger_launch.nthreads = linger->nthreads;
    linger_launch.args = &linger_args;
    fill_linger_args(runner, launch, variant, linger_launch.nblocks, &linger_args);
    replace_owner(runner, true);
    if (!await_leaving(runner, LEAVE_SECONDS_BEFORE_LAUNCH)) {
        mscclpp_linger_clear(runner);
        return mscclpp_repeats_launch(&runner->repeats, runner->gpu, runner->device, runner->stream, launch);
    }
    if (mscclpp_bell_has_lists(launch)) {
        mscclpp_bell_write_lists(runner->mailbox, launch);
    }
    mscclpp_bell_clear(runner->mailbox, linger_args.number);
    status = runner->gpu->launch(runner->stream, &linger_launch);
    if (status != MSCCLPP_OK) {
        mscclpp_linger_clear(runner);
        return status;
    }
    linger->new_sets = 0;
    linger->plan = linger_args.plan;
    linger->last_kernel = linger_args.number;
    linger->has_unnoted_rings = true;
    linger->rings_before = linger->rings;
    linger->nblocks = linger_launch.nblocks;
    *reporting_blocks_p = count_reporting_blocks(linger, linger_args.code);
    /* Rings are allowed last, because from then on other threads may make the kernel leave. */
    allow_rings(runner, linger_args.number);
    return MSCCLPP_OK;
}

/*
 * Returns true if a ring can start the operation: kernel `ringable` still lingers, and has enough blocks. `ringable` is
 * 0 if no kernel may be rung. Returns false if the task has a stream, because the operation must follow the work in
 * that stream.
 */
static bool can_ring(const mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch, uint64_t ringable)
{
    return runner->stream == NULL && ringable != 0 && find_last_left(runner) < ringable &&
           runner->linger.nblocks >= find_min_blocks(runner, launch);
}

/*
 * Returns true if the last lingering kernel was launched with all that the operation needs besides the doorbell: the
 * set of buffers (`variant`) of a zero-copy operation, or the plan.
 */
static bool knows_operation(const mscclpp_linger_t *linger, const mscclpp_dev_launch_t *launch, uint32_t variant)
{
    if (launch->kernel == MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY) {
        return (linger->new_sets >> variant & 1) == 0;
    }
    return launch->kernel != MSCCLPP_KERNEL_PLAN || linger->plan == find_lasting_plan(launch);
}

mscclpp_status_t mscclpp_linger_start(mscclpp_runner_t *runner, const mscclpp_dev_launch_t *launch,
                                      uint32_t *reporting_blocks_p)
{
    mscclpp_linger_t *linger = &runner->linger;
    const bool is_servable = can_serve(runner, launch);
    const uint32_t variant = is_servable ? choose_variant(runner, launch) : 0;
    const uint64_t ringable = __atomic_load_n(&linger->ringable, __ATOMIC_RELAXED);
    /* The end of an operation clears `rung`. If it is set here, the operation begins again after a missed ring. */
    const bool was_missed = linger->rung != 0;
    mscclpp_status_t status;

    linger->rung = 0;
    *reporting_blocks_p = launch->nblocks;
    if (is_servable && knows_operation(linger, launch, variant) && can_ring(runner, launch, ringable)) {
        const uint32_t code = encode_bell(runner, launch, variant, linger->nblocks);

        mscclpp_bell_ring(runner->mailbox, runner->launches + 1, launch, code);
        linger->rung = ringable;
        *reporting_blocks_p = count_reporting_blocks(linger, code);
        return MSCCLPP_OK;
    }
    status = mscclpp_runner_take_stream(runner);
    if (status != MSCCLPP_OK) {
        return status;
    }
    note_kernel(linger, was_missed);
    if (is_servable && is_worthwhile(linger, launch)) {
        return launch_lingering(runner, launch, variant, reporting_blocks_p);
    }
    mscclpp_linger_clear(runner);
    return mscclpp_repeats_launch(&runner->repeats, runner->gpu, runner->device, runner->stream, launch);
}

bool mscclpp_linger_is_present(const mscclpp_runner_t *runner)
{
    return runner->linger.last_kernel != 0 && find_last_left(runner) < runner->linger.last_kernel;
}

bool mscclpp_linger_has_missed(const mscclpp_runner_t *runner)
{
    const mscclpp_linger_t *linger = &runner->linger;

    /* The end is read last, because a kernel that has served the operation reports its end before it leaves. */
    return linger->rung != 0 && find_last_left(runner) >= linger->rung && !mscclpp_runner_has_ended(runner);
}

void mscclpp_linger_note_end(mscclpp_runner_t *runner)
{
    runner->linger.rings += runner->linger.rung != 0;
    runner->linger.rung = 0;
    runner->linger.last_end = mscclpp_now();
}

mscclpp_status_t mscclpp_linger_end(mscclpp_runner_t *runner)
{
    if (!runner->linger.is_allowed) { /* no kernel has lingered, and the device's number may be out of range */
        return MSCCLPP_OK;
    }
    pthread_mutex_lock(&lock);
    make_leave(runner);
    if (owners[runner->device] == runner) {
        __atomic_store_n(&owners[runner->device], NULL, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
    if (!await_leaving(runner, LEAVE_SECONDS)) {
        mscclpp_error("%s: a lingering kernel of rank %d does not leave", runner->group->oob.label,
                      runner->group->members[runner->group->rank]);
        return MSCCLPP_ERR_DEVICE;
    }
    return MSCCLPP_OK;
}

uint64_t mscclpp_linger_count_served(const mscclpp_runner_t *runner)
{
    return runner->linger.rings;
}
