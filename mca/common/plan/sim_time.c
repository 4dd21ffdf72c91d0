/* Computes times by the cost model, and records what happens when. */
#include <stdlib.h>

#include "mca/common/plan/sim.h"
#include "mca/common/plan/words.h"

double mscclpp_sim_end_time(const mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor)
{
    const double begin = sim->ready_at > actor->time ? sim->ready_at : actor->time;

    return begin + sim->op_cost;
}

void mscclpp_sim_need(mscclpp_sim_t *sim, double time)
{
    sim->ready_at = time > sim->ready_at ? time : sim->ready_at;
}

/*
 * Returns the rate at which a block moves data. A block gets at most `block_rate`, and at most an even share of the
 * GPU's rate.
 */
static double compute_rate(double block_rate, double gpu_rate, uint32_t blocks)
{
    double even_share = gpu_rate / (blocks > 0 ? blocks : 1);

    return block_rate < even_share ? block_rate : even_share;
}

/*
 * Returns how long a block takes to move the data of an operation, in microseconds; 0 if the proxy moves it. Own memory
 * and peers are accessed one after the other, and peers at the rate of a link. All blocks of the rank count as busy, so
 * each gets at most an even share of the GPU's rates. Packets take twice the bytes. In a pipeline, the cost is that of
 * a full turn.
 */
static double compute_data_cost(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                                const mscclpp_plan_shape_t *shape)
{
    const mscclpp_plan_op_t *outer = &sim->plan->ranks[block->rank].blocks[block->block].ops[block->op];
    uint32_t blocks = sim->plan->ranks[block->rank].block_count;
    double bytes, far_bytes = 0, near_bytes = 0;

    if (mscclpp_plan_puts_over_ports(op)) {
        return 0;
    }
    for (uint32_t i = 0; i < op->src_count + op->dst_count; ++i) {
        bool is_source = i < op->src_count;
        const mscclpp_plan_item_t *item = is_source ? &op->src[i] : &op->dst[i - op->src_count];

        bytes = item->size * (double)sim->cells_per_chunk * sim->cell_bytes;
        if (block->turns > 0) {
            bytes = (double)(outer->unit / sim->cell_size) * sim->cell_bytes;
        }
        bytes /= op->tbg_size > 0 ? op->tbg_size : 1;
        bytes *= mscclpp_plan_takes_packets(is_source ? mscclpp_plan_takes_src(shape, i)
                                                      : mscclpp_plan_takes_dst(shape, i - op->src_count))
                     ? 2
                     : 1;
        if (item->where == MSCCLPP_PLAN_LOCAL) {
            near_bytes += bytes;
        } else {
            far_bytes += bytes;
        }
    }
    return near_bytes / compute_rate(sim->cost->local, sim->cost->gpu_local, blocks) +
           far_bytes / compute_rate(sim->cost->link, sim->cost->gpu_link, blocks);
}

void mscclpp_sim_begin_op(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    const mscclpp_plan_shape_t *shape = mscclpp_plan_op_shape(op);

    if (sim->cost == NULL) {
        return;
    }
    sim->ready_at = 0;
    sim->op_cost = sim->cost->op + (shape != NULL ? compute_data_cost(sim, block, op, shape) : 0);
    block->reached_at = block->at_barrier || block->is_flushing ? block->reached_at : block->actor.time;
}

/*
 * The operation began when everything that it needed had arrived, and takes op_cost from then on. Does nothing if no
 * times are simulated. Without memory, sim->no_memory ends the run.
 */
void mscclpp_sim_end_op(mscclpp_sim_t *sim, mscclpp_sim_block_t *block)
{
    mscclpp_plan_trace_t *trace = sim->trace;
    mscclpp_plan_span_t *spans;
    double end;

    if (sim->cost == NULL) {
        return;
    }
    end = mscclpp_sim_end_time(sim, &block->actor);
    if (trace->span_count == trace->span_capacity) {
        size_t capacity = trace->span_capacity > 0 ? 2 * trace->span_capacity : 1024;

        spans = realloc(trace->spans, capacity * sizeof(*spans));
        if (spans == NULL) {
            sim->no_memory = true;
            return;
        }
        trace->spans = spans;
        trace->span_capacity = capacity;
    }
    trace->spans[trace->span_count++] = (mscclpp_plan_span_t){.rank = block->rank,
                                                              .block = block->block,
                                                              .op = block->op,
                                                              .inner = block->turns > 0 ? (int32_t)block->inner : -1,
                                                              .turn = block->turn,
                                                              .came = block->reached_at,
                                                              .began = end - sim->op_cost,
                                                              .ended = end};
    block->actor.time = end;
    trace->ended = end > trace->ended ? end : trace->ended;
}

/*
 * Takes the numbers of two agents, both blocks, as indices of the list of blocks. Without memory, sim->no_memory ends
 * the run.
 */
void mscclpp_sim_add_arrow(mscclpp_sim_t *sim, uint32_t from, uint32_t to, double sent_at, double arrives_at,
                           bool is_packet)
{
    mscclpp_plan_trace_t *trace = sim->trace;
    mscclpp_plan_arrow_t *arrows;

    if (sim->cost == NULL) {
        return;
    }
    if (trace->arrow_count == trace->arrow_capacity) {
        size_t capacity = trace->arrow_capacity > 0 ? 2 * trace->arrow_capacity : 1024;

        arrows = realloc(trace->arrows, capacity * sizeof(*arrows));
        if (arrows == NULL) {
            sim->no_memory = true;
            return;
        }
        trace->arrows = arrows;
        trace->arrow_capacity = capacity;
    }
    trace->arrows[trace->arrow_count++] = (mscclpp_plan_arrow_t){.from_rank = sim->blocks[from].rank,
                                                                 .from_block = sim->blocks[from].block,
                                                                 .to_rank = sim->blocks[to].rank,
                                                                 .to_block = sim->blocks[to].block,
                                                                 .sent_at = sent_at,
                                                                 .arrives_at = arrives_at,
                                                                 .is_packet = is_packet};
}
