#include "mca/common/linger.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/linger_types.h"
#include "mca/common/log.h"
#include "mca/common/team_internal.h"
#include "mca/common/tool.h"

#define DEVICES 64
#define NS_PER_US 1000.0

/* Bytes up to which one block is quicker than several, which have to hand the call on to one another. */
#define SINGLE_MAX 8192u
#define TWIN_SINGLE_MAX 256u

/* Seconds that a kernel has to leave, which it does in microseconds: before memory is freed, and before a launch. */
#define LEAVE_TIME 10.0
#define SOON 100e-6

_Static_assert(offsetof(mscclpp_dev_args_t, in) == 4 * MSCCLPP_DEV_BELL_IN_LOW &&
                   offsetof(mscclpp_dev_args_t, out) == 4 * MSCCLPP_DEV_BELL_OUT_LOW &&
                   offsetof(mscclpp_dev_args_t, bytes) == 4 * MSCCLPP_DEV_BELL_BYTES &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "kernels write the words of a bell to the beginning of their arguments as they come");

/* The team whose kernel lingers on each device. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_team_t *owners[DEVICES];
static bool side_by_side;

void mscclpp_linger_share_devices(bool share)
{
    pthread_mutex_lock(&lock);
    side_by_side = share;
    pthread_mutex_unlock(&lock);
}

void mscclpp_linger_init(mscclpp_team_t *team, const mscclpp_config_t *config, bool shared)
{
    mscclpp_linger_t *linger = &team->linger;
    uint32_t blocks = team->on_host ? (uint32_t)config->twin_blocks : (uint32_t)config->linger_blocks;

    linger->allowed =
        team->device >= 0 && team->device < DEVICES && team->size > 1 && strcmp(config->linger, "off") != 0 &&
        (strcmp(config->linger, "on") == 0 || (!team->on_host && !shared && !mscclpp_tool_watches_kernels()));
    linger->window_ns = (uint64_t)(config->linger_window * NS_PER_US);
    linger->idle_ns = (uint64_t)(config->linger_idle * NS_PER_US);
    linger->max_bytes = config->linger_max;
    linger->single_max = team->on_host ? TWIN_SINGLE_MAX : SINGLE_MAX;
    linger->wide_blocks = team->block_limit != 0 && blocks > team->block_limit ? team->block_limit : blocks;
    linger->nthreads = team->on_host ? (uint32_t)config->twin_threads : MSCCLPP_DEV_MAX_THREADS;
    linger->gaps = 1; /* the first calls are given the chance */
    mscclpp_debug("%s: kernels of small calls %s", team->oob.label, linger->allowed ? "linger" : "do not linger");
}

/* With the lock held. */
static void dismiss(mscclpp_team_t *team)
{
    uint64_t number = __atomic_exchange_n(&team->linger.number, 0, __ATOMIC_RELAXED);

    if (number != 0) {
        __atomic_store_n(&team->mailbox->bell[MSCCLPP_DEV_BELL_LEAVE], number, __ATOMIC_RELAXED);
    }
}

/* Makes `next` (NULL: nobody) the one whose kernel lingers on the team's device. */
static void hand_over(mscclpp_team_t *team, mscclpp_team_t *next)
{
    mscclpp_team_t **owner = &owners[team->device];

    pthread_mutex_lock(&lock);
    dismiss(team);
    if (!side_by_side) {
        if (*owner != NULL) {
            dismiss(*owner);
        }
        __atomic_store_n(owner, next, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
}

void mscclpp_linger_clear(mscclpp_team_t *team)
{
    if (__atomic_load_n(&team->linger.number, __ATOMIC_RELAXED) != 0 ||
        (team->device >= 0 && team->device < DEVICES &&
         __atomic_load_n(&owners[team->device], __ATOMIC_RELAXED) != NULL)) {
        hand_over(team, NULL);
    }
}

/* The kernel of that number is on its way: it may be rung for, unless somebody has wanted the device meanwhile. */
static void settle(mscclpp_team_t *team, uint64_t number)
{
    pthread_mutex_lock(&lock);
    __atomic_store_n(&team->linger.number, number, __ATOMIC_RELAXED);
    if (!side_by_side && owners[team->device] != team) {
        dismiss(team);
    }
    pthread_mutex_unlock(&lock);
}

static uint64_t left(const mscclpp_team_t *team)
{
    return __atomic_load_n(&team->mailbox->left, __ATOMIC_ACQUIRE);
}

/* Operations of one epoch: how a kernel divides those does not depend on its grid, so ranks may differ in it. */
static bool can_serve(const mscclpp_team_t *team, const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_args_t *args = launch->args;
    uint64_t units = (args->bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;

    if (!team->linger.allowed || args->bytes > team->linger.max_bytes) {
        return false;
    }
    if (launch->kernel == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT) {
        return units <= MSCCLPP_DEV_ONESHOT_CAPACITY(args->packet_half, args->nranks);
    }
    return launch->kernel == MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE &&
           (units + args->nranks - 1) / args->nranks <= MSCCLPP_DEV_TWOPHASE_CAPACITY(args->packet_half, args->nranks);
}

static bool is_wide(const mscclpp_team_t *team, uint64_t bytes)
{
    return bytes > team->linger.single_max && team->linger.wide_blocks > 1;
}

static uint32_t encode(const mscclpp_team_t *team, const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_args_t *args = launch->args;

    return MSCCLPP_DEV_BELL_ENCODE(launch->kernel, args->dtype, args->op, is_wide(team, args->bytes), args->release);
}

static void ring(mscclpp_team_t *team, const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_args_t *args = launch->args;
    uint64_t flag = (team->launches + 1) << 32;
    uint64_t in = (uintptr_t)args->in, out = (uintptr_t)args->out;
    uint64_t words[MSCCLPP_DEV_BELL_WORDS];
    int w;

    words[MSCCLPP_DEV_BELL_IN_LOW] = (uint32_t)in;
    words[MSCCLPP_DEV_BELL_IN_HIGH] = in >> 32;
    words[MSCCLPP_DEV_BELL_OUT_LOW] = (uint32_t)out;
    words[MSCCLPP_DEV_BELL_OUT_HIGH] = out >> 32;
    words[MSCCLPP_DEV_BELL_BYTES] = args->bytes;
    words[MSCCLPP_DEV_BELL_CODE] = encode(team, launch);
    for (w = 0; w < MSCCLPP_DEV_BELL_WORDS; ++w) {
        __atomic_store_n(&team->mailbox->bell[w], flag | words[w], __ATOMIC_RELEASE);
    }
    team->linger.others = is_wide(team, args->bytes) ? team->linger.nblocks - 1 : 0;
}

/*
 * Waits until the team's last lingering kernel has left, at most so many seconds. Its blocks use the relay until then.
 */
static bool await_left(const mscclpp_team_t *team, double seconds)
{
    double until;

    if (left(team) >= team->linger.started) {
        return true;
    }
    until = mscclpp_team_now() + seconds;
    while (left(team) < team->linger.started) {
        if (mscclpp_team_now() > until) {
            return false;
        }
        sched_yield();
    }
    return true;
}

/* Calls as close as one of the last two would find the kernel still there. */
static bool pays(const mscclpp_linger_t *linger)
{
    return (linger->gaps & 3) != 0;
}

static mscclpp_status_t launch_lingering(mscclpp_team_t *team, const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_args_t *args = launch->args;
    mscclpp_linger_t *linger = &team->linger;
    mscclpp_dev_linger_args_t linger_args;
    mscclpp_dev_launch_t lingering;
    mscclpp_status_t status;

    linger_args.common = *args;
    linger_args.number = team->launches + 1;
    linger_args.window_ns = linger->window_ns;
    linger_args.idle_ns = linger->idle_ns;
    linger_args.code = encode(team, launch);
    lingering.kernel = MSCCLPP_KERNEL_LINGER;
    lingering.nblocks = is_wide(team, args->bytes) ? linger->wide_blocks : 1;
    lingering.nthreads = linger->nthreads;
    lingering.args = &linger_args;
    hand_over(team, team);
    if (!await_left(team, SOON)) {
        mscclpp_linger_clear(team);
        return team->gpu->launch(team->stream, launch);
    }
    /* Words that lie there since 2^32 operations before would be taken for the next one's. */
    __atomic_store_n(&team->mailbox->bell[0], linger_args.number << 32, __ATOMIC_RELAXED);
    status = team->gpu->launch(team->stream, &lingering);
    if (status != MSCCLPP_OK) {
        mscclpp_linger_clear(team);
        return status;
    }
    linger->started = linger_args.number;
    linger->nblocks = lingering.nblocks;
    settle(team, linger_args.number);
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_linger_start(mscclpp_team_t *team, const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_args_t *args = launch->args;
    mscclpp_linger_t *linger = &team->linger;
    bool suitable = can_serve(team, launch);
    uint64_t number = __atomic_load_n(&linger->number, __ATOMIC_RELAXED);
    mscclpp_status_t status;

    if (linger->ended > 0 && linger->rung == 0) {
        linger->gaps = linger->gaps << 1 | (1e9 * (mscclpp_team_now() - linger->ended) < (double)linger->idle_ns);
    }
    linger->rung = 0;
    linger->others = 0;
    /* What the team's stream holds already must come first. */
    if (suitable && team->stream == NULL && number != 0 && left(team) < number &&
        (linger->nblocks > 1 || !is_wide(team, args->bytes))) {
        ring(team, launch);
        linger->rung = number;
        return MSCCLPP_OK;
    }
    status = mscclpp_team_take_stream(team);
    if (status != MSCCLPP_OK) {
        return status;
    }
    if (suitable && pays(linger)) {
        return launch_lingering(team, launch);
    }
    mscclpp_linger_clear(team);
    return team->gpu->launch(team->stream, launch);
}

bool mscclpp_linger_present(const mscclpp_team_t *team)
{
    return team->linger.started != 0 && left(team) < team->linger.started;
}

bool mscclpp_linger_missed(const mscclpp_team_t *team)
{
    const mscclpp_linger_t *linger = &team->linger;

    return linger->rung != 0 && left(team) >= linger->rung && !mscclpp_team_has_ended(team);
}

void mscclpp_linger_note_end(mscclpp_team_t *team)
{
    team->linger.rings += team->linger.rung != 0;
    team->linger.rung = 0;
    team->linger.others = 0;
    team->linger.ended = mscclpp_team_now();
}

mscclpp_status_t mscclpp_linger_end(mscclpp_team_t *team)
{
    if (!team->linger.allowed) {
        return MSCCLPP_OK;
    }
    pthread_mutex_lock(&lock);
    dismiss(team);
    if (owners[team->device] == team) {
        __atomic_store_n(&owners[team->device], NULL, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
    if (!await_left(team, LEAVE_TIME)) {
        mscclpp_error("%s: a lingering kernel of rank %d does not leave", team->oob.label, team->rank);
        return MSCCLPP_ERR_DEVICE;
    }
    return MSCCLPP_OK;
}

uint64_t mscclpp_linger_rings(const mscclpp_team_t *team)
{
    return team->linger.rings;
}
