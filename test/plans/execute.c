/*
 * Runs plans on the twin: every rank in a thread of its own, launch after launch without a barrier between, with new
 * inputs each time and every result compared. Usage: execute [--threads N] [--most BYTES] [--brief] [--large]
 * [--rooted] FILE... --large runs each plan once, with 64 MiB of integers in all blocks together. With --rooted a
 * custom plan is a broadcast, gather, scatter or reduce, whichever its buffers fit.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/kern/plan/run.h"
#include "device/launch/launch.h"
#include "mca/common/plan/check.h"
#include "mca/common/plan/ends.h"
#include "mca/common/plan/lower.h"
#include "mca/common/plan/simulate.h"
#include "mca/common/plan/visit.h"
#include "test/plans/packed.h"

enum { LAUNCHES = 4, GUARD = 64, SKIPPED = 2, LARGE = 64 << 20 };

typedef struct {
    mscclpp_dtype_t dtype;
    uint32_t size;
    mscclpp_op_t op;
    const char *name;
} kind_t;

static const kind_t kinds[] = {
    {MSCCLPP_DTYPE_INT32, 4, MSCCLPP_OP_SUM, "int32 sum"},    {MSCCLPP_DTYPE_INT8, 1, MSCCLPP_OP_SUM, "int8 sum"},
    {MSCCLPP_DTYPE_FLOAT16, 2, MSCCLPP_OP_SUM, "half sum"},   {MSCCLPP_DTYPE_FLOAT32, 4, MSCCLPP_OP_SUM, "float sum"},
    {MSCCLPP_DTYPE_FLOAT64, 8, MSCCLPP_OP_MAX, "double max"}, {MSCCLPP_DTYPE_INT64, 8, MSCCLPP_OP_MIN, "int64 min"},
    {MSCCLPP_DTYPE_UINT16, 2, MSCCLPP_OP_BXOR, "uint16 bxor"}};

typedef struct job job_t;

typedef struct {
    job_t *job;
    uint32_t rank;
    char *memory; /* holds the input and the output, with guards around them */
    size_t memory_size;
    char *in, *out;
    uint64_t in_bytes, out_bytes;
    char *scratch;
    uint64_t *arrived, *expected;
    mscclpp_dev_plan_counter_t *semaphores, *barriers;
    mscclpp_dev_plan_state_t states[MSCCLPP_DEV_MAX_BLOCKS];
    void *packed; /* the program, as blocks copy it to their own memory; NULL: it is too long */
    mscclpp_dev_state_t *team_state;
    mscclpp_dev_mailbox_t *mailbox;
    mscclpp_plan_program_t program;
    mscclpp_dev_twin_queue_t *queue;
    bool failed;
    char reason[200];
} rank_t;

/* What a custom plan does, as the chunks of its ranks' buffers tell. */
typedef enum { NOT_ROOTED, BROADCAST, GATHER, SCATTER, REDUCE } rooted_t;

/* A plan with one size and one kind of element. */
struct job {
    const mscclpp_plan_t *plan;
    rooted_t rooted;
    uint32_t root;
    const kind_t *kind;
    uint64_t block_bytes, chunk, half; /* bytes: of a rank's block, of a chunk, of a half of the scratch */
    uint32_t threads;                  /* of a block */
    uint32_t shift;                    /* bytes by which the buffers are misaligned */
    uint32_t width;                    /* of packets */
    bool orders;                       /* packets have to order other stores */
    bool has_packets, has_plain;       /* some scratch holds packets; some holds other data */
    rank_t *ranks;
    char **bases;
    uint64_t **arrived;
};

/* An element of a rank's input. It is so small that sums are exact in every type. */
static int64_t input(uint32_t rank, uint64_t index, uint32_t launch)
{
    return (int64_t)((index * 7 + rank * 13 + launch * 29 + index / 251) % 7);
}

static int64_t combine(mscclpp_op_t op, int64_t x, int64_t y)
{
    switch (op) {
    case MSCCLPP_OP_MAX:
        return x > y ? x : y;
    case MSCCLPP_OP_MIN:
        return x < y ? x : y;
    case MSCCLPP_OP_BXOR:
        return x ^ y;
    default:
        return x + y;
    }
}

/* Stores a number as an element of some type. */
static void put_element(const kind_t *kind, char *p, int64_t value)
{
    union {
        int8_t i8;
        uint16_t u16;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } element;

    memset(&element, 0, sizeof(element));
    switch (kind->dtype) {
    case MSCCLPP_DTYPE_INT8:
        element.i8 = (int8_t)value;
        break;
    case MSCCLPP_DTYPE_UINT16:
        element.u16 = (uint16_t)value;
        break;
    case MSCCLPP_DTYPE_FLOAT16:
        element.u16 = mscclpp_dev_f32_to_f16((float)value);
        break;
    case MSCCLPP_DTYPE_INT32:
        element.i32 = (int32_t)value;
        break;
    case MSCCLPP_DTYPE_FLOAT32:
        element.f32 = (float)value;
        break;
    case MSCCLPP_DTYPE_FLOAT64:
        element.f64 = (double)value;
        break;
    default:
        element.i64 = value;
        break;
    }
    memcpy(p, &element, kind->size);
}

/* One element of the inputs of all ranks, combined. */
static int64_t over_all_ranks(const job_t *job, uint64_t index, uint32_t launch)
{
    int64_t value = input(0, index, launch);

    for (uint32_t r = 1; r < job->plan->rank_count; ++r) {
        value = combine(job->kind->op, value, input(r, index, launch));
    }
    return value;
}

/* The same of a custom plan. */
static int64_t expected_rooted(const job_t *job, uint32_t rank, uint64_t index, uint32_t launch)
{
    uint64_t in = job->ranks[rank].in_bytes / job->kind->size, out = job->ranks[rank].out_bytes / job->kind->size;

    switch (job->rooted) {
    case GATHER:
        return input((uint32_t)(index / in), index % in, launch);
    case SCATTER:
        return input(job->root, rank * out + index, launch);
    case REDUCE:
        return over_all_ranks(job, index, launch);
    default:
        return input(job->root, index, launch);
    }
}

/* What an element of a rank's output has to be. */
static int64_t expected(const job_t *job, uint32_t rank, uint64_t index, uint32_t launch)
{
    uint64_t block = job->block_bytes / job->kind->size;

    if (job->rooted != NOT_ROOTED) {
        return expected_rooted(job, rank, index, launch);
    }
    switch (job->plan->collective) {
    case MSCCLPP_PLAN_ALLREDUCE:
        return over_all_ranks(job, index, launch);
    case MSCCLPP_PLAN_ALLGATHER:
        return input((uint32_t)(index / block), index % block, launch);
    case MSCCLPP_PLAN_REDUCESCATTER:
        return over_all_ranks(job, rank * block + index, launch);
    default:
        return input((uint32_t)(index / block), rank * block + index % block, launch);
    }
}

/* Launches a rank's kernel, narrow and wide by turns; every other launch has the form that blocks copy, if it fits. */
static bool launch_rank(rank_t *rank, uint32_t number)
{
    const job_t *job = rank->job;
    mscclpp_dev_plan_args_t args;
    mscclpp_dev_launch_t launch = {(rank->rank + number / 2) % 2 == 0 ? MSCCLPP_KERNEL_PLAN_WIDE : MSCCLPP_KERNEL_PLAN,
                                   rank->program.block_count, job->threads, &args};

    memset(&args, 0, sizeof(args));
    args.common.dtype = (uint32_t)job->kind->dtype;
    args.common.op = (uint32_t)job->kind->op;
    args.common.rank = rank->rank;
    args.common.nranks = job->plan->rank_count;
    args.common.timeout_ns = 120000000000u;
    args.common.mailbox = rank->mailbox;
    args.common.state = rank->team_state;
    if (rank->packed != NULL && number % 2 == 1) {
        (void)mscclpp_plan_program_measure(&rank->program, &args);
        args.programs = rank->packed;
    } else {
        args.steps = rank->program.steps;
        args.items = rank->program.items;
        args.links = rank->program.links;
        args.starts = rank->program.starts;
    }
    memcpy(args.bases, job->bases, 3 * job->plan->rank_count * sizeof(args.bases[0]));
    args.expected = rank->expected;
    args.semaphores = rank->semaphores;
    args.barriers = rank->barriers;
    args.plan_state = rank->states;
    args.chunk = job->chunk;
    args.block_bytes = job->chunk * mscclpp_plan_block_chunks(job->plan) == job->block_bytes ? MSCCLPP_DEV_PLAN_NO_END
                                                                                             : job->block_bytes;
    args.stride = job->block_bytes;
    args.half = job->half;
    args.alignment = job->plan->alignment;
    args.width = job->width;
    args.planes = job->width == MSCCLPP_DEV_LL16 && !(job->has_packets && job->has_plain) &&
                  job->half % (2 * MSCCLPP_DEV_PLAN_PLANE) == 0;
    args.packet_gap = MSCCLPP_DEV_PLAN_PACKET_GAP(&args);
    args.orders = job->orders;
    args.brief_chunks = mscclpp_plan_program_brief_chunks(&rank->program);
    args.rank = rank->rank;
    for (uint32_t r = 0; r < job->plan->rank_count; ++r) {
        args.late_ranks[r] = (uint8_t)r;
    }
    return rank->program.block_count == 0 || mscclpp_dev_twin_launch(rank->queue, &launch) == 0;
}

/* Whether a launch has ended well: the output is right, and nothing beside the buffers is overwritten. */
static bool is_right(rank_t *rank, uint32_t launch)
{
    const job_t *job = rank->job;
    char wanted[16], *p;

    if (rank->mailbox->failed != 0) {
        snprintf(rank->reason, sizeof(rank->reason), "rank %u gave up in launch %u, waiting for rank %llu", rank->rank,
                 launch, (unsigned long long)rank->mailbox->failed - 1);
        return false;
    }
    for (uint64_t i = 0; i < rank->out_bytes / job->kind->size; ++i) {
        p = rank->out + i * job->kind->size;
        put_element(job->kind, wanted, expected(job, rank->rank, i, launch));
        if (memcmp(p, wanted, job->kind->size) != 0) {
            snprintf(rank->reason, sizeof(rank->reason), "rank %u: element %llu of %llu is wrong in launch %u",
                     rank->rank, (unsigned long long)i, (unsigned long long)(rank->out_bytes / job->kind->size),
                     launch);
            return false;
        }
    }
    for (size_t i = 0; i < rank->memory_size; ++i) {
        bool inside = (rank->memory + i >= rank->in && rank->memory + i < rank->in + rank->in_bytes) ||
                      (rank->memory + i >= rank->out && rank->memory + i < rank->out + rank->out_bytes);

        if (!inside && rank->memory[i] != 0x5a) {
            snprintf(rank->reason, sizeof(rank->reason),
                     "rank %u: byte %zu outside of the buffers is overwritten in launch %u", rank->rank, i, launch);
            return false;
        }
    }
    return true;
}

/* All launches of one rank, in a thread of its own. */
static void *run_rank(void *context)
{
    rank_t *rank = context;
    const kind_t *kind = rank->job->kind;

    for (uint32_t launch = 1; launch <= LAUNCHES && !rank->failed; ++launch) {
        /* By the plan no peer touches the buffers any more. If one does, a result becomes wrong. */
        memset(rank->out, 0x33, rank->out_bytes);
        for (uint64_t i = 0; i < rank->in_bytes / kind->size; ++i) {
            put_element(kind, rank->in + i * kind->size, input(rank->rank, i, launch));
        }
        if (!launch_rank(rank, launch)) {
            snprintf(rank->reason, sizeof(rank->reason), "rank %u cannot be launched", rank->rank);
            rank->failed = true;
        }
        while (!mscclpp_dev_twin_queue_is_idle(rank->queue)) {
            sched_yield();
        }
        rank->failed = rank->failed || !is_right(rank, launch);
    }
    if (rank->failed) {
        for (uint32_t r = 0; r < rank->job->plan->rank_count; ++r) {
            __atomic_store_n(&rank->job->ranks[r].mailbox->abort, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

/* Lays out the buffers: one behind the other or, for plans in place, one within the other, with guards around them. */
static void place_buffers(job_t *job, rank_t *rank)
{
    uint64_t n = job->plan->rank_count, block = job->block_bytes, apart;
    bool many_in =
        job->plan->collective == MSCCLPP_PLAN_REDUCESCATTER || job->plan->collective == MSCCLPP_PLAN_ALLTOALL;
    bool many_out = job->plan->collective == MSCCLPP_PLAN_ALLGATHER || job->plan->collective == MSCCLPP_PLAN_ALLTOALL;

    rank->in_bytes = many_in ? n * block : block;
    rank->out_bytes = many_out ? n * block : block;
    if (job->rooted != NOT_ROOTED) { /* a block is a chunk */
        rank->in_bytes = job->plan->ranks[rank->rank].chunks[MSCCLPP_PLAN_INPUT] * block;
        rank->out_bytes = job->plan->ranks[rank->rank].chunks[MSCCLPP_PLAN_OUTPUT] * block;
    }
    rank->memory_size = rank->in_bytes + rank->out_bytes + 4 * GUARD;
    rank->memory = zeroed(rank->memory_size);
    memset(rank->memory, 0x5a, rank->memory_size);
    rank->in = rank->memory + GUARD + job->shift;
    apart = (rank->in_bytes + GUARD + 15) / 16 * 16;
    rank->out = rank->in + apart;
    if (job->plan->in_place) {
        rank->out = rank->in;
        if (many_out && !many_in) {
            rank->in = rank->out + rank->rank * block;
        } else if (many_in && !many_out) {
            rank->out = rank->in + rank->rank * block;
        }
    }
}

/* Makes what a rank needs. Returns why that cannot be done, or NULL. */
static const char *set_up(job_t *job, rank_t *rank)
{
    const mscclpp_plan_t *plan = job->plan;
    const mscclpp_plan_rank_t *code = &plan->ranks[rank->rank];
    const char *reason = "no memory";

    if (mscclpp_plan_lower(plan, rank->rank, NULL, job->orders, &rank->program, &reason) != MSCCLPP_OK) {
        return reason;
    }
    note_scratch(&rank->program, &job->has_packets, &job->has_plain);
    place_buffers(job, rank);
    rank->scratch = zeroed(mscclpp_plan_scratch_bytes(plan, job->chunk, &job->half));
    rank->arrived = zeroed(rank->program.channels * sizeof(*rank->arrived));
    rank->expected = zeroed(rank->program.channels * sizeof(*rank->expected));
    rank->semaphores = zeroed(code->semaphore_count * sizeof(*rank->semaphores));
    for (uint32_t i = 0; i < code->semaphore_count; ++i) {
        rank->semaphores[i].given = code->semaphores[i];
    }
    rank->barriers = zeroed(rank->program.barriers * sizeof(*rank->barriers));
    rank->mailbox = zeroed(sizeof(*rank->mailbox));
    rank->team_state = zeroed(sizeof(*rank->team_state));
    job->bases[3 * rank->rank] = rank->in;
    job->bases[3 * rank->rank + 1] = rank->out;
    job->bases[3 * rank->rank + 2] = rank->scratch;
    job->arrived[rank->rank] = rank->arrived;
    return mscclpp_dev_twin_queue_create(&rank->queue) == 0 ? NULL : "no queue";
}

static void tear_down(rank_t *rank)
{
    mscclpp_dev_twin_queue_destroy(rank->queue);
    mscclpp_plan_program_destroy(&rank->program);
    free(rank->memory);
    free(rank->scratch);
    free(rank->arrived);
    free(rank->expected);
    free(rank->semaphores);
    free(rank->barriers);
    free(rank->mailbox);
    free(rank->team_state);
    free(rank->packed);
}

/* Runs a plan with one size and one kind of element. Returns 0 if it is right, 1 if it is wrong, or SKIPPED. */
static int run_job(job_t *job, const char *path)
{
    uint32_t n = job->plan->rank_count;
    pthread_t *threads = zeroed(n * sizeof(*threads));
    const char *reason = NULL;
    int status = 0;

    job->ranks = zeroed(n * sizeof(*job->ranks));
    job->bases = zeroed(3 * n * sizeof(*job->bases));
    job->arrived = zeroed(n * sizeof(*job->arrived));
    for (uint32_t r = 0; r < n && reason == NULL; ++r) {
        job->ranks[r].job = job;
        job->ranks[r].rank = r;
        reason = set_up(job, &job->ranks[r]);
    }
    for (uint32_t r = 0; r < n && reason == NULL; ++r) {
        job->ranks[r].packed = packed_program(&job->ranks[r].program, r, job->arrived);
    }
    if (reason != NULL) {
        printf("%s: skipped: %s\n", path, reason);
        status = SKIPPED;
    }
    for (uint32_t r = 0; r < n && reason == NULL; ++r) {
        if (pthread_create(&threads[r], NULL, run_rank, &job->ranks[r]) != 0) {
            fprintf(stderr, "execute: no thread\n");
            exit(1);
        }
    }
    for (uint32_t r = 0; r < n && reason == NULL; ++r) {
        pthread_join(threads[r], NULL);
    }
    for (uint32_t r = 0; r < n; ++r) {
        if (job->ranks[r].failed && status == 0) {
            printf("failed: %s, %s, blocks of %llu bytes at +%u, %u threads, LL%u: %s\n", path, job->kind->name,
                   (unsigned long long)job->block_bytes, job->shift, job->threads, job->width, job->ranks[r].reason);
            status = 1;
        }
        tear_down(&job->ranks[r]);
    }
    free(job->ranks);
    free(job->bases);
    free(job->arrived);
    free(threads);
    return status;
}

/* Notes the reduction of a plan that serves min or max alone. */
static void find_op(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op, const mscclpp_plan_op_t *pipeline)
{
    (void)place, (void)pipeline;
    if (op->reduce != MSCCLPP_PLAN_SUM) {
        *(mscclpp_plan_reduce_t *)context = op->reduce;
    }
}

/* What to run a plan with: it serves any operation if it says sum, otherwise the one that it says. */
static kind_t served(const mscclpp_plan_t *plan, kind_t kind)
{
    mscclpp_plan_reduce_t reduce = MSCCLPP_PLAN_SUM;

    mscclpp_plan_visit(plan, find_op, &reduce);
    if (reduce != MSCCLPP_PLAN_SUM) {
        kind.op = reduce == MSCCLPP_PLAN_MAX ? MSCCLPP_OP_MAX : MSCCLPP_OP_MIN;
        kind.name = reduce == MSCCLPP_PLAN_MAX ? "max" : "min";
    }
    return kind;
}

/* Which rank alone has a buffer of one kind, while all have the other. The number of ranks if there is none. */
static uint32_t only_one(const mscclpp_plan_t *plan, mscclpp_plan_buffer_t one, mscclpp_plan_buffer_t all)
{
    uint32_t found = plan->rank_count;

    for (uint32_t r = 0; r < plan->rank_count; ++r) {
        if (plan->ranks[r].chunks[all] == 0 || (plan->ranks[r].chunks[one] > 0 && found < plan->rank_count)) {
            return plan->rank_count;
        }
        found = plan->ranks[r].chunks[one] > 0 ? r : found;
    }
    return found;
}

static rooted_t find_rooted(const mscclpp_plan_t *plan, uint32_t *root_p)
{
    uint32_t n = plan->rank_count, from = only_one(plan, MSCCLPP_PLAN_INPUT, MSCCLPP_PLAN_OUTPUT);
    uint32_t to = only_one(plan, MSCCLPP_PLAN_OUTPUT, MSCCLPP_PLAN_INPUT), root = from < n ? from : to;
    uint64_t in, out;

    if (plan->collective != MSCCLPP_PLAN_CUSTOM || root == n) {
        return NOT_ROOTED;
    }
    *root_p = root;
    in = plan->ranks[root].chunks[MSCCLPP_PLAN_INPUT];
    out = plan->ranks[root].chunks[MSCCLPP_PLAN_OUTPUT];
    if (from < n) {
        return in == out ? BROADCAST : in == n * out ? SCATTER : NOT_ROOTED;
    }
    return in == out ? REDUCE : out == n * in ? GATHER : NOT_ROOTED;
}

typedef struct {
    uint32_t threads; /* of a block */
    uint64_t most;    /* bytes of the largest block that is run */
    bool brief, large, rooted;
} options_t;

/* Sets the block's bytes and the chunk's. If the plan wants chunks that divide the block, enlarges the block. */
static void set_block(job_t *job, uint64_t bytes)
{
    const uint64_t step = 48 * (uint64_t)mscclpp_plan_block_chunks(job->plan);

    job->block_bytes = bytes;
    if (!mscclpp_plan_chunk_bytes(job->plan, bytes, &job->chunk)) {
        job->block_bytes = (bytes + step - 1) / step * step;
        mscclpp_plan_chunk_bytes(job->plan, job->block_bytes, &job->chunk);
    }
}

/* Runs a plan with LARGE bytes in all blocks together. Returns as run_job() does. */
static int run_large(const mscclpp_plan_t *plan, const char *path, uint32_t threads, bool orders)
{
    const kind_t kind = served(plan, kinds[0]);
    job_t job = {.plan = plan, .kind = &kind, .threads = threads, .width = MSCCLPP_DEV_LL16, .orders = orders};
    int status;

    job.rooted = find_rooted(plan, &job.root);
    set_block(&job, plan->collective == MSCCLPP_PLAN_ALLREDUCE ? LARGE : LARGE / plan->rank_count / 16 * 16);
    status = run_job(&job, path);
    if (status == 0) {
        printf("%s: right with blocks of %llu bytes\n", path, (unsigned long long)job.block_bytes);
    }
    return status;
}

/* Runs a plan with several sizes and kinds of elements. Returns as run_job() does. */
static int run_plan(const mscclpp_plan_t *plan, const char *path, const options_t *options, bool orders)
{
    static const uint64_t counts[] = {1, 3, 17, 96, 1000, 4096, 70001};
    int runs = 0, status = 0;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && status == 0; ++i) {
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && status == 0; ++k) {
            const kind_t kind = served(plan, kinds[k]);
            job_t job = {.plan = plan, .kind = &kind, .threads = options->threads, .orders = orders};

            job.rooted = find_rooted(plan, &job.root);
            set_block(&job, counts[i] * job.kind->size);
            if (job.block_bytes > options->most || (i > 4 && k > 0) || (options->brief && (i + k) % 5 != 0)) {
                continue;
            }
            job.shift = i % 2 == 1 ? job.kind->size : 0;
            job.width = k % 2 == 0 ? MSCCLPP_DEV_LL16 : MSCCLPP_DEV_LL8;
            status = run_job(&job, path);
            runs += status == 0;
        }
    }
    if (status == 0) {
        printf("%s: right in %d runs of %d launches\n", path, runs, LAUNCHES);
    }
    return status;
}

/* Reads, proves and runs a plan. Returns as run_job() does. */
static int run_file(const char *path, const options_t *options)
{
    mscclpp_plan_sim_options_t sim_options = {.launches = MSCCLPP_PLAN_LAUNCHES, .seed = 1};
    mscclpp_plan_sim_stats_t stats;
    mscclpp_plan_report_t report;
    mscclpp_plan_t *plan = NULL;
    int status = SKIPPED;
    bool fine, known, orders = false;
    uint32_t root;

    mscclpp_plan_report_init(&report);
    fine = mscclpp_plan_read(path, &report, &plan) == MSCCLPP_OK && mscclpp_plan_check(plan, &report) &&
           mscclpp_plan_simulate(plan, &sim_options, &report, &stats);
    for (int i = 0; i < report.count; ++i) {
        orders = orders || strcmp(report.findings[i].rule, "packet-order") == 0;
    }
    known = fine && plan->collective != MSCCLPP_PLAN_TEST && plan->collective != MSCCLPP_PLAN_CUSTOM &&
            plan->collective != MSCCLPP_PLAN_SENDRECV;
    known = known || (fine && options->rooted && find_rooted(plan, &root) != NOT_ROOTED);
    if (!fine || !known) {
        printf("%s: skipped: %s\n", path, !fine ? mscclpp_plan_verdict(&report) : "its results are not known");
    } else if (options->large) {
        status = run_large(plan, path, options->threads, orders);
    } else {
        status = run_plan(plan, path, options, orders);
    }
    mscclpp_plan_free(plan);
    mscclpp_plan_report_destroy(&report);
    return status;
}

int main(int argc, char **argv)
{
    options_t options = {.threads = 1, .most = 1 << 20};
    int counts[3] = {0, 0, 0};

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
            options.threads = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--most") == 0 && i + 1 < argc) {
            options.most = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--brief") == 0) {
            options.brief = true;
        } else if (strcmp(argv[i], "--rooted") == 0) {
            options.rooted = true;
        } else if (strcmp(argv[i], "--large") == 0) {
            options.large = true;
        } else {
            ++counts[run_file(argv[i], &options)];
        }
    }
    printf("%d plans right, %d wrong, %d skipped\n", counts[0], counts[1], counts[2]);
    return counts[1] > 0 || counts[0] == 0 ? 1 : 0;
}
