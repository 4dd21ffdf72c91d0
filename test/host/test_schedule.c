/*
 * Chosen interleavings of the packet kernels. One thread is held at the one moment at which a packet of the next kernel
 * could overwrite a packet that it has not read yet. It is held until the peers are as far ahead as the protocol lets
 * them be. The kernels run on threads of this program. The program controls them where they wait.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/kern/allreduce/allreduce_oneshot.h"
#include "device/kern/allreduce/allreduce_twophase.h"
#include "device/kern/allreduce/allreduce_twophase_ll128.h"
#include "test/unit/unit.h"

#define RANKS 3
#define THREADS 2
#define KERNELS 2
#define UNITS 300 /* of the longest message */
#define WORDS (UNITS * 4)

/*
 * Seconds: HOLD for which a thread is held at most, LOST after which a wait counts as lost, and SURELY to wait for what
 * must happen sooner or later.
 */
#define HOLD 0.5
#define LOST 10.0
#define SURELY 60.0

typedef enum { ONESHOT, ONESHOT_LL8, TWOPHASE, LL128 } body_t;

typedef struct {
    const char *name;
    uint32_t ranks;
    uint32_t threads;
    uint64_t half_units; /* packets in each half of the packet area */
    body_t body[KERNELS];
    uint64_t units[KERNELS];
    uint32_t held_tid; /* of rank 0: held in the first kernel */
    uint32_t held_epoch;
} schedule_t;

/* What the threads of one run share. A flag is set once and never cleared. */
typedef struct {
    const schedule_t *schedule;
    char *scratch[RANKS];
    mscclpp_dev_state_t *state[RANKS];
    mscclpp_dev_mailbox_t *mailbox[RANKS];
    mscclpp_dev_twin_barrier_t meeting[RANKS];
    uint32_t in[KERNELS][RANKS][WORDS];
    uint32_t out[KERNELS][RANKS][WORDS];
    int held_waits; /* rank 0's thread has reached the place where it is held */
    int relay_waits;
    int waits_in_second[RANKS]; /* threads that wait for packets of the second kernel */
} run_t;

typedef struct {
    run_t *run;
    mscclpp_dev_args_t args; /* of the kernel in hand */
    uint32_t rank;
    uint32_t tid;
    int kernel;
    bool was_held;
    bool has_relayed;
    bool counted;
} actor_t;

static double now(void)
{
    return 1e-9 * (double)mscclpp_dev_now_ns();
}

static bool is_set(const int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_RELAXED) != 0;
}

static void set(int *flag)
{
    __atomic_add_fetch(flag, 1, __ATOMIC_RELAXED);
}

static void wait_for(const int *flag, int value, double seconds)
{
    double until = now() + seconds;

    while (__atomic_load_n(flag, __ATOMIC_RELAXED) < value && now() < until) {
        sched_yield();
    }
}

static bool is_twophase(body_t body)
{
    return body == TWOPHASE || body == LL128;
}

/* The same for LL128, which sends bundles in place of units. */
static bool has_sent_bundles(const actor_t *actor)
{
    const schedule_t *schedule = actor->run->schedule;
    const mscclpp_dev_args_t *args = &actor->args;
    const uint64_t shard = (schedule->units[0] + args->nranks - 1) / args->nranks;
    const uint64_t bundles = (shard + MSCCLPP_DEV_BUNDLE_UNITS - 1) / MSCCLPP_DEV_BUNDLE_UNITS;
    const uint64_t chunk = bundles < args->ll128_capacity ? bundles : args->ll128_capacity;
    mscclpp_dev_twophase_t epoch;
    mscclpp_dev_bundle_t bundle;
    mscclpp_dev_ctx_t ctx;
    uint64_t b = chunk - 1;

    memset(&ctx, 0, sizeof(ctx));
    memset(&epoch, 0, sizeof(epoch));
    epoch.args = args;
    epoch.flag = schedule->held_epoch;
    epoch.capacity = args->ll128_capacity;
    while (b % schedule->threads != actor->tid) {
        --b;
    }
    mscclpp_dev_bundle_ld(&ctx,
                          mscclpp_dev_bundle_slot(args, schedule->ranks - 1, actor->rank, 1, args->ll128_capacity, b),
                          epoch.flag, &bundle);
    return mscclpp_dev_bundle_has(&ctx, &bundle, epoch.flag);
}

/* True once this thread has sent all its packets of the held epoch, so that it only waits for those of others. */
static bool has_sent_all(const actor_t *actor)
{
    const schedule_t *schedule = actor->run->schedule;
    const mscclpp_dev_args_t *args = &actor->args;
    const uint32_t flag = schedule->held_epoch, last = schedule->ranks - 1;
    const uint64_t shard = (schedule->units[0] + args->nranks - 1) / args->nranks;
    const uint64_t capacity = MSCCLPP_DEV_TWOPHASE_CAPACITY(args->packet_half, args->nranks);
    const uint64_t chunk = MSCCLPP_DEV_PACKET_CHUNK(shard, capacity, schedule->threads);
    mscclpp_dev_vec_t v;
    uint64_t u = chunk - 1;

    if (!is_twophase(schedule->body[0])) {
        return true; /* the kernel sends before it waits */
    }
    if (schedule->body[0] == LL128) {
        return has_sent_bundles(actor);
    }
    while (u % schedule->threads != actor->tid) {
        --u;
    }
    return mscclpp_dev_poll_unit(mscclpp_dev_twophase_slot(args, last, actor->rank, 1, flag, capacity, u),
                                 capacity * MSCCLPP_DEV_PACKET_STEP, &v, flag, MSCCLPP_DEV_LL16);
}

/* A thread that waits calls this. */
static void turn(void *context)
{
    actor_t *actor = context;
    run_t *run = actor->run;
    const schedule_t *schedule = run->schedule;

    if (actor->kernel == 1) {
        if (!actor->counted) {
            actor->counted = true;
            set(&run->waits_in_second[actor->rank]);
        }
        return;
    }
    if (actor->tid != schedule->held_tid) {
        return;
    }
    if (actor->rank == 0 && !actor->was_held && has_sent_all(actor)) {
        actor->was_held = true;
        set(&run->held_waits);
        wait_for(&run->waits_in_second[schedule->ranks - 1], (int)schedule->threads, HOLD);
    } else if (actor->rank == 1 && is_twophase(schedule->body[0]) && !actor->has_relayed) {
        /* Rank 1 sends its result only when rank 0 waits for it. */
        actor->has_relayed = true;
        set(&run->relay_waits);
        wait_for(&run->held_waits, 1, SURELY);
    }
}

/*
 * The last rank's thread comes last, so that others have to wait for it. In the one-shot kernel rank 0 waits. In the
 * two-phase kernel rank 1 waits, and then keeps its result back until rank 0 waits for the result.
 */
static void delay_start(const actor_t *actor)
{
    run_t *run = actor->run;

    if (actor->rank != run->schedule->ranks - 1 || actor->tid != run->schedule->held_tid) {
        return;
    }
    wait_for(is_twophase(run->schedule->body[0]) ? &run->relay_waits : &run->held_waits, 1, SURELY);
}

static void run_body(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, body_t body)
{
    if (body == TWOPHASE) {
        mscclpp_dev_allreduce_twophase(ctx, args, false, MSCCLPP_DTYPE_UINT32, MSCCLPP_OP_SUM);
    } else if (body == LL128) {
        mscclpp_dev_allreduce_twophase_ll128(ctx, args, false, MSCCLPP_DTYPE_UINT32, MSCCLPP_OP_SUM);
    } else {
        mscclpp_dev_allreduce_oneshot(ctx, args, false, MSCCLPP_DTYPE_UINT32, MSCCLPP_OP_SUM,
                                      body == ONESHOT ? MSCCLPP_DEV_LL16 : MSCCLPP_DEV_LL8);
    }
}

static void *actor_main(void *argument)
{
    actor_t *actor = argument;
    run_t *run = actor->run;
    const schedule_t *schedule = run->schedule;
    mscclpp_dev_args_t *args = &actor->args;
    mscclpp_dev_ctx_t ctx;
    uint32_t r;

    memset(&ctx, 0, sizeof(ctx));
    ctx.tid = actor->tid;
    ctx.nthreads = schedule->threads;
    ctx.nblocks = 1;
    ctx.meeting = &run->meeting[actor->rank];
    args->dtype = MSCCLPP_DTYPE_UINT32;
    args->op = MSCCLPP_OP_SUM;
    args->rank = actor->rank;
    args->nranks = schedule->ranks;
    args->timeout_ns = (uint64_t)(LOST * 1e9);
    args->packet_half = schedule->half_units * MSCCLPP_DEV_PACKET_UNIT;
    args->oneshot_capacity = (uint32_t)MSCCLPP_DEV_ONESHOT_CAPACITY(args->packet_half, args->nranks);
    args->twophase_capacity = (uint32_t)MSCCLPP_DEV_TWOPHASE_CAPACITY(args->packet_half, args->nranks);
    args->ll128_capacity = (uint32_t)MSCCLPP_DEV_LL128_CAPACITY(args->packet_half, args->nranks);
    args->state = run->state[actor->rank];
    args->mailbox = run->mailbox[actor->rank];
    for (r = 0; r < schedule->ranks; ++r) {
        args->scratch[r] = run->scratch[r];
    }
    delay_start(actor);
    for (actor->kernel = 0; actor->kernel < KERNELS; ++actor->kernel) {
        args->in = run->in[actor->kernel][actor->rank];
        args->out = run->out[actor->kernel][actor->rank];
        args->bytes = schedule->units[actor->kernel] * MSCCLPP_DEV_UNIT;
        ctx.patience = 1; /* pauses call the progress function one turn before they yield */
        ctx.progress = turn;
        ctx.progress_context = actor;
        run_body(&ctx, args, schedule->body[actor->kernel]);
        /* As between two launches, all threads of one kernel end before any thread of the next one begins. */
        ctx.progress = NULL;
        mscclpp_dev_block_sync(&ctx);
    }
    return NULL;
}

static void *zeroed(size_t size)
{
    void *address = NULL;

    if (posix_memalign(&address, 128, size) != 0) {
        perror("posix_memalign");
        exit(1);
    }
    memset(address, 0, size);
    return address;
}

static bool verify(const run_t *run)
{
    const schedule_t *schedule = run->schedule;
    const uint32_t n = schedule->ranks;
    uint32_t k, r, i;

    for (r = 0; r < n; ++r) {
        if (run->mailbox[r]->failed != 0) {
            fprintf(stderr, "    rank %u lost a packet of rank %u\n", r, (uint32_t)run->mailbox[r]->failed - 1);
            return false;
        }
        for (k = 0; k < KERNELS; ++k) {
            for (i = 0; i < schedule->units[k] * 4; ++i) {
                if (run->out[k][r][i] != n * (i + 1000 * k) + n * (n - 1) / 2 * 7) {
                    fprintf(stderr, "    rank %u, kernel %u: word %u is %u\n", r, k, i, run->out[k][r][i]);
                    return false;
                }
            }
        }
    }
    return true;
}

static void test(const schedule_t *schedule)
{
    const uint64_t half = schedule->half_units * MSCCLPP_DEV_PACKET_UNIT;
    const size_t size = MSCCLPP_DEV_LL128_OFFSET(half) + half;
    run_t *run = zeroed(sizeof(*run));
    actor_t actors[RANKS * THREADS];
    pthread_t threads[RANKS * THREADS];
    uint32_t r, t, k, i, count = 0;
    bool right;

    run->schedule = schedule;
    for (r = 0; r < schedule->ranks; ++r) {
        run->scratch[r] = zeroed(size);
        run->state[r] = zeroed(sizeof(*run->state[r]));
        run->mailbox[r] = zeroed(sizeof(*run->mailbox[r]));
        for (k = 0; k < KERNELS; ++k) {
            for (i = 0; i < WORDS; ++i) {
                run->in[k][r][i] = i + 1000 * k + 7 * r;
            }
        }
    }
    memset(actors, 0, sizeof(actors));
    for (r = 0; r < schedule->ranks; ++r) {
        for (t = 0; t < schedule->threads; ++t, ++count) {
            actors[count].run = run;
            actors[count].rank = r;
            actors[count].tid = t;
            REQUIRE(pthread_create(&threads[count], NULL, actor_main, &actors[count]) == 0);
        }
    }
    while (count > 0) {
        pthread_join(threads[--count], NULL);
    }
    right = verify(run);
    CHECK(right);
    if (!right) {
        fprintf(stderr, "    in: %s\n", schedule->name);
    }
    /* If this fails, the schedule is not the intended one and proves nothing. */
    CHECK(is_set(&run->held_waits));
    for (r = 0; r < schedule->ranks; ++r) {
        free(run->scratch[r]);
        free(run->state[r]);
        free(run->mailbox[r]);
    }
    free(run);
}

/* Slots are as small as the messages need, so that packets of any two kernels share memory. */
static const schedule_t schedules[] = {
    {"one-shot after one-shot", 2, 1, 8, {ONESHOT, ONESHOT}, {4, 4}, 0, 1},
    {"one-shot after one-shot, three ranks", 3, 2, 24, {ONESHOT, ONESHOT}, {8, 8}, 1, 1},
    {"8-byte packets after 8-byte packets", 2, 1, 8, {ONESHOT_LL8, ONESHOT_LL8}, {4, 4}, 0, 1},
    {"16-byte packets after 8-byte packets", 2, 1, 8, {ONESHOT_LL8, ONESHOT}, {4, 4}, 0, 1},
    {"two-phase after one-shot", 3, 1, 24, {ONESHOT, TWOPHASE}, {8, 12}, 0, 1},
    {"one-shot after two-phase", 3, 1, 24, {TWOPHASE, ONESHOT}, {12, 8}, 0, 1},
    {"two-phase after two-phase", 3, 1, 24, {TWOPHASE, TWOPHASE}, {12, 12}, 0, 1},
    /* Two epochs. The second has one unit, which is not the held thread's. */
    {"one-shot of two epochs", 2, 2, 8, {ONESHOT, ONESHOT}, {5, 4}, 1, 1},
    {"one-shot after two-phase of two epochs", 3, 2, 24, {TWOPHASE, ONESHOT}, {13, 8}, 1, 1},
    /* Halves of one bundle for each peer and phase. */
    {"LL128 after LL128", 3, 1, 64, {LL128, LL128}, {90, 90}, 0, 1},
    {"LL128 after two-phase", 3, 1, 64, {TWOPHASE, LL128}, {30, 90}, 0, 1},
    {"one-shot after LL128", 3, 1, 64, {LL128, ONESHOT}, {90, 20}, 0, 1},
    {"LL128 of two epochs, after as many", 3, 1, 64, {LL128, LL128}, {92, 100}, 0, 1},
    {"LL128 of two epochs, of two threads", 3, 2, 128, {LL128, LL128}, {200, 200}, 1, 1},
};

int main(void)
{
    size_t i;

    unit_begin();
    for (i = 0; i < sizeof(schedules) / sizeof(schedules[0]); ++i) {
        test(&schedules[i]);
    }
    return unit_end();
}
