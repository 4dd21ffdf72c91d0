#include "mca/common/plan/trace.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/sim_run.h"
#include "mca/common/plan/visit.h"

const mscclpp_plan_cost_t mscclpp_plan_default_cost = {
    /* python/mscclpp_plans/blocks.py chooses by the same numbers. */
    .op = 0.1,    .latency = 1.0,      .port = 3.0,       .local = 60e3,
    .link = 25e3, .gpu_local = 2000e3, .gpu_link = 400e3, .gpu_port = 40e3};

/* The numbers by which operations divide a chunk. They determine how many cells a chunk needs. */
typedef struct {
    uint32_t largest_group; /* blocks in the largest group that shares an operation; at least 1 */
    uint64_t unit;          /* greatest common divisor of the turns of all pipelines, bytes; 0: no pipeline */
} cut_t;

/* Notes how one operation divides chunks: among the blocks of a group, or into turns (mscclpp_plan_visit_fn_t). */
static void note_cut(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                     const mscclpp_plan_op_t *pipeline)
{
    cut_t *cut = context;
    uint64_t dividend = op->unit, divisor = cut->unit, remainder;

    (void)place, (void)pipeline;
    cut->largest_group = op->tbg_size > cut->largest_group ? op->tbg_size : cut->largest_group;
    if (op->kind == MSCCLPP_PLAN_OP_PIPELINE) {
        for (; divisor != 0; dividend = divisor, divisor = remainder) {
            remainder = dividend % divisor;
        }
        cut->unit = dividend;
    }
}

/* The results of a visit of all operations: the port channels that move data. */
typedef struct {
    const mscclpp_plan_t *plan;
    uint32_t *counts; /* by rank: number of its port channels that move data */
    bool *is_mover;   /* by port channel, rank after rank: the channel moves data */
} movers_t;

/*
 * Notes the port channels by which an operation moves data (mscclpp_plan_visit_fn_t). A channel is counted only once,
 * at its first operation that moves data.
 */
static void note_movers(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                        const mscclpp_plan_op_t *pipeline)
{
    movers_t *movers = context;
    bool *is_mover = movers->is_mover;

    (void)pipeline;
    if (op->channel_type != MSCCLPP_PLAN_PORT || op->dst_count == 0) {
        return;
    }
    for (int rank_number = 0; rank_number < place.rank; ++rank_number) {
        is_mover += movers->plan->ranks[rank_number].channel_count[MSCCLPP_PLAN_PORT];
    }
    for (uint32_t i = 0; i < op->channel_count; ++i) {
        movers->counts[place.rank] += !is_mover[op->channels[i]];
        is_mover[op->channels[i]] = true;
    }
}

/*
 * Counts, for each rank, the port channels that move data. Returns NULL if there is no memory. The caller frees the
 * array.
 */
static uint32_t *count_movers(const mscclpp_plan_t *plan)
{
    size_t channels = 1;
    movers_t movers = {.plan = plan, .counts = calloc(plan->rank_count, sizeof(*movers.counts))};

    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        channels += plan->ranks[rank_number].channel_count[MSCCLPP_PLAN_PORT];
    }
    movers.is_mover = calloc(channels, sizeof(*movers.is_mover));
    if (movers.counts != NULL && movers.is_mover != NULL) {
        mscclpp_plan_visit(plan, note_movers, &movers);
    } else {
        free(movers.counts);
        movers.counts = NULL;
    }
    free(movers.is_mover);
    return movers.counts;
}

/* Returns the size of a chunk in bytes, at least 1, if the message has `bytes` bytes. */
static uint64_t compute_chunk_bytes(const mscclpp_plan_t *plan, uint64_t bytes)
{
    uint64_t in_chunks = 0, out_chunks = 0, message_chunks, chunk_bytes;

    mscclpp_sim_get_shape(plan, 0, &in_chunks, &out_chunks);
    message_chunks = plan->collective == MSCCLPP_PLAN_ALLGATHER || in_chunks == 0 ? out_chunks : in_chunks;
    chunk_bytes = message_chunks > 0 ? bytes / message_chunks : bytes;
    return chunk_bytes > 0 ? chunk_bytes : 1;
}

/*
 * Divides the chunks of the simulation into cells. Each block of the largest group needs at least one cell. With
 * pipelines, a cell is the greatest common divisor of the turns. Returns false, with nothing changed, if a chunk would
 * have more than `max_cells` cells.
 */
static bool divide_chunks(mscclpp_sim_t *sim, uint64_t chunk_bytes, uint64_t max_cells)
{
    cut_t cut = {.largest_group = 1, .unit = 0};
    uint64_t cells;

    mscclpp_plan_visit(sim->plan, note_cut, &cut);
    cells = cut.unit > 0 ? (chunk_bytes + cut.unit - 1) / cut.unit : cut.largest_group;
    if (cells > max_cells) {
        return false;
    }
    sim->cell_size = cut.unit > 0 ? cut.unit : 1;
    sim->cells_per_chunk = (uint32_t)cells;
    sim->cell_bytes = (double)chunk_bytes / (double)cells;
    return true;
}

bool mscclpp_plan_trace(const mscclpp_plan_t *plan, uint64_t bytes, const mscclpp_plan_cost_t *cost,
                        mscclpp_plan_report_t *report, mscclpp_plan_trace_t *trace)
{
    enum { MAX_CELLS = 1024 }; /* of a chunk; also limits how many turns a pipeline has */
    mscclpp_sim_t sim = {.plan = plan, .report = report, .launches = 1, .seed = 1, .cost = cost, .trace = trace};
    int faults_before = report->faults;
    uint32_t *movers;

    memset(trace, 0, sizeof(*trace));
    if (!divide_chunks(&sim, compute_chunk_bytes(plan, bytes), MAX_CELLS)) {
        mscclpp_plan_add_finding(report, MSCCLPP_PLAN_INVALID, "size-limit", mscclpp_plan_nowhere,
                                 "a message of %llu bytes takes more than %d turns of a pipeline",
                                 (unsigned long long)bytes, MAX_CELLS);
        return false;
    }
    movers = count_movers(plan);
    if (movers == NULL) {
        report->no_memory = true;
        return false;
    }
    sim.movers = movers;
    if (!mscclpp_sim_run(&sim, 0)) {
        mscclpp_plan_add_finding(report, MSCCLPP_PLAN_INVALID, "size-limit", mscclpp_plan_nowhere,
                                 "the buffers have too many chunks to be simulated");
    }
    free(movers);
    return report->faults == faults_before && !report->no_memory;
}

void mscclpp_plan_trace_destroy(mscclpp_plan_trace_t *trace)
{
    free(trace->spans);
    free(trace->arrows);
    memset(trace, 0, sizeof(*trace));
}
