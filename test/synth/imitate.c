/*
 * Runs plans on the twin with the costs of links imitated, and compares the results with what they have to be. Each
 * block has a clock; it moves with the data that cross links and the signals that come, and not with the machine's
 * time, so figures hardly depend on what else runs: only links that several blocks use serve them in the order in which
 * they really came. Packets are twice the data, and are noticed in half the time that a signal takes.
 * Usage: imitate --topology FILE|NAME --bytes N [--order RANK,...] PLAN...
 * Prints a line for each plan: its name, and microseconds. With --order, rank i of a plan is that rank of the topology.
 */
#include <getopt.h>
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
#include "tools/synth/lib/ranges.h"

enum { MAX_SIGNALS = 4096 };

typedef struct {
    const synth_topology_t *topology;
    int order[SYNTH_MAX_RANKS];
    int next[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS]; /* on a shortest way: where to go first */
    double alpha, rate;                         /* microseconds; bytes in a microsecond over a unit of capacity */
    double *link_free, *group_free;             /* when all that was sent has crossed */
    pthread_mutex_t lock;
} machine_t;

typedef struct rank rank_t;

typedef struct {
    machine_t *machine;
    const mscclpp_plan_t *plan;
    rank_t *ranks;
    double ***stamp; /* [rank][channel][signal]: when it comes */
    double **packet; /* [rank][chunk of the scratch]: when it is there as packets; negative: not sent yet */
    uint32_t **given;
} run_t;

struct rank {
    run_t *run;
    uint32_t rank;
    mscclpp_plan_program_t program;
    mscclpp_dev_plan_args_t args;
    mscclpp_dev_plan_state_t state;
    mscclpp_dev_state_t *team_state;
    mscclpp_dev_mailbox_t *mailbox;
    float *in, *out;
    char *scratch;
    uint64_t in_count, out_count;
};

typedef struct {
    rank_t *rank;
    uint32_t block;
    double clock, until[SYNTH_MAX_RANKS]; /* when what was put to a rank is there */
    int hops[SYNTH_MAX_RANKS];
    bool failed;
} block_t;

static void *zeroed(size_t size)
{
    void *address = NULL;

    if (posix_memalign(&address, 64, size + 64) != 0) {
        fprintf(stderr, "imitate: no memory\n");
        exit(1);
    }
    return memset(address, 0, size + 64);
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Reserves a link for what crosses it, one after the other, and each limit that it shares. Returns when it is there. */
static double cross(machine_t *machine, int link, double bytes, double ready)
{
    const synth_topology_t *topology = machine->topology;
    double start = later(ready, machine->link_free[link]), end;

    end = start + bytes / (machine->rate * topology->links[link].capacity);
    for (int g = 0; g < topology->group_count; ++g) {
        for (int k = 0; k < topology->groups[g].count; ++k) {
            if (topology->groups[g].links[k] == link) {
                machine->group_free[g] =
                    later(ready, machine->group_free[g]) + bytes / (machine->rate * topology->groups[g].capacity);
                end = later(end, machine->group_free[g]);
            }
        }
    }
    machine->link_free[link] = end;
    return end;
}

/* From rank to rank; where no link joins them, over others, which store and forward. */
static double carry(machine_t *machine, int from, int to, double bytes, double ready, int *hops)
{
    int at = machine->order[from], end = machine->order[to];

    *hops = 0;
    pthread_mutex_lock(&machine->lock);
    while (at != end) {
        int next = machine->next[at][end];

        ready = cross(machine, machine->topology->link_between[at][next], bytes, ready);
        at = next;
        ++*hops;
    }
    pthread_mutex_unlock(&machine->lock);
    return ready;
}

/* Whoever reads packets goes on when the last of them has come. */
static void await_packets(block_t *block, const mscclpp_dev_plan_item_t *item, uint64_t size)
{
    double *stamps = block->rank->run->packet[block->rank->rank], when;

    for (uint64_t i = item->chunk; i < item->chunk + size; ++i) {
        do {
            __atomic_load(&stamps[i], &when, __ATOMIC_ACQUIRE);
            sched_yield();
        } while (when < 0);
        block->clock = later(block->clock, when);
    }
}

static void send_packets(block_t *block, const mscclpp_dev_plan_item_t *item, uint64_t size, double bytes)
{
    machine_t *machine = block->rank->run->machine;
    uint32_t peer = item->base / 3;
    double when = block->clock;
    int hops = 0;

    if (peer != block->rank->rank) {
        when = carry(machine, (int)block->rank->rank, (int)peer, 2 * bytes, when, &hops) + hops * machine->alpha / 2;
    }
    for (uint64_t i = item->chunk; i < item->chunk + size; ++i) {
        __atomic_store(&block->rank->run->packet[peer][i], &when, __ATOMIC_RELEASE);
    }
}

static void move_data(block_t *block, mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_step_t *step,
                      const mscclpp_dev_plan_run_t *now)
{
    const rank_t *rank = block->rank;
    const uint64_t bytes = mscclpp_dev_plan_slice(&rank->args, step, now).bytes;
    int hops;

    for (uint32_t i = 0; i < step->sources + step->targets && bytes > 0; ++i) {
        const mscclpp_dev_plan_item_t *item = &now->program.items[step->items + i];
        uint32_t peer = item->base / 3;

        if (item->packets != 0 && i < step->sources) {
            await_packets(block, item, step->size);
            continue;
        }
        if (item->packets != 0) {
            send_packets(block, item, step->size, (double)bytes);
            continue;
        }
        if (peer == rank->rank) {
            continue;
        }
        if (i < step->sources) {
            block->clock = later(block->clock, carry(rank->run->machine, (int)peer, (int)rank->rank, (double)bytes,
                                                     block->clock, &hops));
        } else {
            block->until[peer] = later(block->until[peer], carry(rank->run->machine, (int)rank->rank, (int)peer,
                                                                 (double)bytes, block->clock, &hops));
            block->hops[peer] = hops;
        }
    }
    mscclpp_dev_plan_data(ctx, &rank->args, step, now, false, false, MSCCLPP_DTYPE_FLOAT32, MSCCLPP_OP_SUM);
}

/* A signal comes behind the data that were put before it; a relayed one takes a step's cost for each link. */
static void signal_or_wait(block_t *block, mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_step_t *step,
                           const mscclpp_dev_plan_run_t *now)
{
    rank_t *rank = block->rank;
    run_t *run = rank->run;

    for (uint32_t i = 0; i < step->count && step->code == MSCCLPP_DEV_PLAN_SIGNAL; ++i) {
        const mscclpp_dev_plan_link_t *link = &now->program.links[step->links + i];
        int hops = block->hops[link->peer] > 1 ? block->hops[link->peer] : 1;
        uint32_t *count = &run->given[link->peer][link->slot];

        run->stamp[link->peer][link->slot][(*count)++ % MAX_SIGNALS] =
            later(block->clock, block->until[link->peer]) + hops * run->machine->alpha;
    }
    mscclpp_dev_plan_use_links(ctx, &rank->args, step, now);
    for (uint32_t i = 0; i < step->count && step->code == MSCCLPP_DEV_PLAN_WAIT; ++i) {
        const mscclpp_dev_plan_link_t *link = &now->program.links[step->links + i];
        uint64_t signal = rank->args.expected[link->slot] - 1;

        block->clock = later(block->clock, run->stamp[rank->rank][link->slot][signal % MAX_SIGNALS]);
    }
}

static void *run_block(void *context)
{
    block_t *block = context;
    rank_t *rank = block->rank;
    mscclpp_dev_twin_barrier_t meeting;
    mscclpp_dev_ctx_t ctx;
    const mscclpp_dev_plan_start_t first = rank->args.starts[block->block];
    mscclpp_dev_plan_run_t now = {.program = {rank->args.steps + first.step, rank->args.items + first.item,
                                              rank->args.links + first.link, NULL, NULL},
                                  .flag = 1};

    memset(&meeting, 0, sizeof(meeting));
    memset(&ctx, 0, sizeof(ctx));
    ctx.nthreads = 1;
    ctx.block = block->block;
    ctx.nblocks = rank->program.block_count;
    ctx.meeting = &meeting;
    ctx.cluster = 1;
    for (uint32_t at = 0; !ctx.failed && !block->failed; ++at) {
        const mscclpp_dev_plan_step_t *step = &now.program.steps[at];

        if (step->code == MSCCLPP_DEV_PLAN_END) {
            break;
        }
        if (step->code == MSCCLPP_DEV_PLAN_DATA) {
            move_data(block, &ctx, step, &now);
        } else if (step->code == MSCCLPP_DEV_PLAN_SIGNAL || step->code == MSCCLPP_DEV_PLAN_WAIT) {
            signal_or_wait(block, &ctx, step, &now);
        } else if (step->code == MSCCLPP_DEV_PLAN_LOOP) {
            now.unit = step->unit;
            now.turn = 0;
            now.turns = (step->size * rank->args.chunk + now.unit - 1) / now.unit;
        } else if (step->code == MSCCLPP_DEV_PLAN_AGAIN) {
            if (++now.turn < now.turns) {
                at = step->items;
            } else {
                now.turns = 0;
            }
        } else if (step->code != MSCCLPP_DEV_PLAN_NOP) {
            fprintf(stderr, "imitate: rank %u has a step of kind %u, which is not imitated\n", rank->rank, step->code);
            block->failed = true;
        }
    }
    for (int peer = 0; peer < SYNTH_MAX_RANKS; ++peer) {
        block->clock = later(block->clock, block->until[peer]);
    }
    block->failed = block->failed || ctx.failed;
    return NULL;
}

static float input(uint32_t rank, uint64_t i)
{
    return (float)((rank * 13 + i * 7 + i / 251) % 11);
}

static bool is_right(const run_t *run, const rank_t *rank, uint64_t block)
{
    for (uint64_t i = 0; i < rank->out_count; ++i) {
        float wanted = 0;

        if (run->plan->collective == MSCCLPP_PLAN_ALLGATHER) {
            wanted = input((uint32_t)(i / block), i % block);
        }
        for (uint32_t r = 0; run->plan->collective == MSCCLPP_PLAN_ALLREDUCE && r < run->plan->rank_count; ++r) {
            wanted += input(r, i);
        }
        if (rank->out[i] != wanted) {
            fprintf(stderr, "imitate: rank %u: element %llu is %g and has to be %g\n", rank->rank,
                    (unsigned long long)i, (double)rank->out[i], (double)wanted);
            return false;
        }
    }
    return true;
}

static bool set_up(run_t *run, uint64_t block_bytes, uint64_t chunk)
{
    uint32_t n = run->plan->rank_count;
    uint64_t half, blocks = run->plan->collective == MSCCLPP_PLAN_ALLGATHER ? n : 1, **arrived;
    const char *reason = "no memory";

    arrived = zeroed(n * sizeof(*arrived));
    for (uint32_t r = 0; r < n; ++r) {
        rank_t *rank = &run->ranks[r];

        if (mscclpp_plan_lower(run->plan, r, NULL, true, &rank->program, &reason) != MSCCLPP_OK) {
            fprintf(stderr, "imitate: %s\n", reason);
            return false;
        }
        rank->run = run;
        rank->rank = r;
        rank->in_count = block_bytes / sizeof(float);
        rank->out_count = blocks * rank->in_count;
        rank->out = zeroed(rank->out_count * sizeof(float));
        rank->in = zeroed(rank->in_count * sizeof(float));
        if (run->plan->in_place) {
            rank->in = rank->out + (blocks > 1 ? r * rank->in_count : 0);
        }
        for (uint64_t i = 0; i < rank->in_count; ++i) {
            rank->in[i] = input(r, i);
        }
        rank->scratch = zeroed(mscclpp_plan_scratch_bytes(run->plan, chunk, &half));
        run->packet[r] = zeroed((run->plan->ranks[r].chunks[MSCCLPP_PLAN_SCRATCH] + 1) * sizeof(double));
        for (uint32_t k = 0; k <= run->plan->ranks[r].chunks[MSCCLPP_PLAN_SCRATCH]; ++k) {
            run->packet[r][k] = -1;
        }
        rank->mailbox = zeroed(sizeof(*rank->mailbox));
        rank->team_state = zeroed(sizeof(*rank->team_state));
        arrived[r] = zeroed(rank->program.channels * sizeof(uint64_t));
        run->given[r] = zeroed(rank->program.channels * sizeof(uint32_t));
        run->stamp[r] = zeroed(rank->program.channels * sizeof(double *));
        for (uint32_t k = 0; k < rank->program.channels; ++k) {
            run->stamp[r][k] = zeroed(MAX_SIGNALS * sizeof(double));
        }
    }
    for (uint32_t r = 0; r < n; ++r) {
        rank_t *rank = &run->ranks[r];
        mscclpp_dev_plan_args_t *args = &rank->args;

        args->common.rank = r;
        args->common.nranks = n;
        args->common.timeout_ns = 300000000000u;
        args->common.mailbox = rank->mailbox;
        args->common.state = rank->team_state;
        args->steps = rank->program.steps;
        args->items = rank->program.items;
        args->links = rank->program.links;
        args->starts = rank->program.starts;
        mscclpp_plan_program_resolve(&rank->program, r, arrived);
        args->expected = zeroed(rank->program.channels * sizeof(uint64_t));
        args->plan_state = &rank->state;
        args->chunk = chunk;
        args->block_bytes =
            chunk * mscclpp_plan_block_chunks(run->plan) == block_bytes ? MSCCLPP_DEV_PLAN_NO_END : block_bytes;
        args->stride = block_bytes;
        args->half = half;
        args->alignment = run->plan->alignment;
        args->width = MSCCLPP_DEV_LL16;
        args->packet_gap = MSCCLPP_DEV_PLAN_PACKET_GAP(args);
        args->rank = r;
        for (uint32_t k = 0; k < n; ++k) {
            args->bases[3 * k] = (char *)run->ranks[k].in;
            args->bases[3 * k + 1] = (char *)run->ranks[k].out;
            args->bases[3 * k + 2] = run->ranks[k].scratch;
            args->late_ranks[k] = (uint8_t)k;
        }
    }
    return true;
}

/* Microseconds until the last block has ended; negative after a message. Memory stays: the process ends soon. */
static double imitate(machine_t *machine, const mscclpp_plan_t *plan, uint64_t bytes)
{
    uint64_t blocks = plan->collective == MSCCLPP_PLAN_ALLGATHER ? plan->rank_count : 1, block_bytes = bytes / blocks;
    run_t run = {machine,
                 plan,
                 zeroed(plan->rank_count * sizeof(rank_t)),
                 zeroed(plan->rank_count * sizeof(double **)),
                 zeroed(plan->rank_count * sizeof(double *)),
                 zeroed(plan->rank_count * sizeof(uint32_t *))};
    uint32_t count = 0, chunks = mscclpp_plan_block_chunks(plan);
    pthread_t thread[1024];
    block_t *block = zeroed(1024 * sizeof(*block));
    bool fine = true;
    double end = 0;
    uint64_t chunk;

    if ((int)plan->rank_count != machine->topology->ranks ||
        (plan->collective != MSCCLPP_PLAN_ALLGATHER && plan->collective != MSCCLPP_PLAN_ALLREDUCE)) {
        fprintf(stderr, "imitate: a plan of another number of ranks, or of another collective\n");
        return -1;
    }
    block_bytes = (block_bytes + 16 * chunks - 1) / (16 * chunks) * (16 * chunks);
    memset(machine->link_free, 0, sizeof(double) * (size_t)machine->topology->link_count);
    memset(machine->group_free, 0, sizeof(double) * ((size_t)machine->topology->group_count + 1));
    if (!mscclpp_plan_chunk_bytes(plan, block_bytes, &chunk) || !set_up(&run, block_bytes, chunk)) {
        return -1;
    }
    for (uint32_t r = 0; r < plan->rank_count; ++r) {
        for (uint32_t b = 0; b < run.ranks[r].program.block_count && count < 1024; ++b) {
            block[count].rank = &run.ranks[r];
            block[count].block = b;
            fine = fine && pthread_create(&thread[count], NULL, run_block, &block[count]) == 0;
            count += fine;
        }
    }
    for (uint32_t i = 0; i < count; ++i) {
        pthread_join(thread[i], NULL);
        end = later(end, block[i].clock);
        fine = fine && !block[i].failed;
    }
    for (uint32_t r = 0; fine && r < plan->rank_count; ++r) {
        fine = is_right(&run, &run.ranks[r], block_bytes / sizeof(float));
    }
    return fine ? end : -1;
}

static void find_ways(machine_t *machine)
{
    const synth_topology_t *topology = machine->topology;
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS];

    synth_topology_distances(topology, distance);
    for (int a = 0; a < topology->ranks; ++a) {
        for (int b = 0; b < topology->ranks; ++b) {
            for (int via = 0; via < topology->ranks; ++via) {
                if (topology->link_between[a][via] >= 0 && distance[via][b] == distance[a][b] - 1) {
                    machine->next[a][b] = via;
                }
            }
        }
    }
}

static bool read_order(machine_t *machine, char *text)
{
    char *rest = NULL;
    int i = 0;

    for (char *word = strtok_r(text, ",", &rest); word != NULL && i < SYNTH_MAX_RANKS;
         word = strtok_r(NULL, ",", &rest)) {
        machine->order[i++] = atoi(word);
    }
    return i == machine->topology->ranks;
}

int main(int argc, char **argv)
{
    static const struct option table[] = {{"topology", required_argument, NULL, 't'},
                                          {"bytes", required_argument, NULL, 'b'},
                                          {"order", required_argument, NULL, 'o'},
                                          {NULL, 0, NULL, 0}};
    machine_t machine = {.lock = PTHREAD_MUTEX_INITIALIZER};
    synth_topology_t *topology = NULL;
    char reason[SYNTH_REASON] = "no topology", *order = NULL;
    uint64_t bytes = 0;
    int option, failed = 0;

    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (option == 't' && synth_topology_named(optarg, reason, sizeof(reason), &topology) != MSCCLPP_OK &&
            synth_topology_read(optarg, reason, sizeof(reason), &topology) != MSCCLPP_OK) {
            break;
        }
        order = option == 'o' ? optarg : order;
        bytes = option == 'b' ? strtoull(optarg, NULL, 10) : bytes;
    }
    if (topology == NULL || bytes == 0) {
        fprintf(stderr, "imitate: %s\n", reason);
        return 2;
    }
    machine.topology = topology;
    for (int i = 0; i < topology->ranks; ++i) {
        machine.order[i] = i;
    }
    if (order != NULL && !read_order(&machine, order)) {
        fprintf(stderr, "imitate: --order names every rank once\n");
        return 2;
    }
    machine.alpha = topology->alpha_us > 0 ? topology->alpha_us : SYNTH_ALPHA_US;
    machine.rate = 1000 * (topology->unit_gbps > 0 ? topology->unit_gbps : SYNTH_UNIT_GBPS);
    machine.link_free = zeroed(sizeof(double) * (size_t)topology->link_count);
    machine.group_free = zeroed(sizeof(double) * ((size_t)topology->group_count + 1));
    find_ways(&machine);
    for (int i = optind; i < argc; ++i) {
        mscclpp_plan_report_t report;
        mscclpp_plan_t *plan = NULL;
        double time = -1;

        mscclpp_plan_report_init(&report);
        if (mscclpp_plan_read(argv[i], &report, &plan) == MSCCLPP_OK && mscclpp_plan_check(plan, &report)) {
            time = imitate(&machine, plan, bytes);
        }
        printf("%s %.3f\n", argv[i], time);
        failed += time < 0;
        mscclpp_plan_free(plan);
        mscclpp_plan_report_destroy(&report);
    }
    synth_topology_free(topology);
    return failed > 0;
}
