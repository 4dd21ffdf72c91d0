/* Says in words who did what to which chunk. */
#include <stdio.h>

#include "mca/common/plan/sim.h"
#include "mca/common/plan/words.h"

const mscclpp_plan_op_t *mscclpp_sim_current_op(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block)
{
    const mscclpp_plan_block_t *code = &sim->plan->ranks[block->rank].blocks[block->block];
    const mscclpp_plan_op_t *op = &code->ops[block->op];

    return op->kind == MSCCLPP_PLAN_OP_PIPELINE && block->turns > 0 ? &op->body[block->inner] : op;
}

/* Returns the place of an event. The place is that of the block, even if the block's proxy acted. */
static mscclpp_plan_place_t find_place(const mscclpp_sim_t *sim, const mscclpp_sim_event_t *event)
{
    const mscclpp_sim_block_t *block = &sim->blocks[event->block];
    const mscclpp_plan_op_t *op = &sim->plan->ranks[block->rank].blocks[block->block].ops[event->op];

    if (event->inner >= 0) {
        op = &op->body[event->inner];
    }
    return (mscclpp_plan_place_t){.rank = (int)block->rank,
                                  .block = (int)block->block,
                                  .op = (int)event->op,
                                  .inner = event->inner,
                                  .name = mscclpp_plan_op_name(op->kind)};
}

mscclpp_plan_place_t mscclpp_sim_place_of(const mscclpp_sim_t *sim, uint32_t agent, uint32_t clock)
{
    uint32_t index_of_agent = sim->index_of_agent[agent];

    if (agent < sim->block_count) {
        return find_place(sim, &sim->blocks[index_of_agent].actor.events[clock]);
    }
    if (agent < sim->block_count + sim->plan->rank_count) {
        return (mscclpp_plan_place_t){.rank = (int)index_of_agent, .block = -1, .op = -1, .inner = -1};
    }
    return find_place(sim, &sim->proxies[index_of_agent].actor.events[clock]);
}

/* Agents are numbered in this order: all blocks, the application of each rank, all proxies. */
const char *mscclpp_sim_actor_text(const mscclpp_sim_t *sim, uint32_t agent, uint32_t clock, char *text, size_t size)
{
    uint32_t index_of_agent = sim->index_of_agent[agent];
    char place[80];

    mscclpp_plan_place_text(mscclpp_sim_place_of(sim, agent, clock), place, sizeof(place));
    if (agent < sim->block_count) {
        snprintf(text, size, "%s in launch %u", place, sim->blocks[index_of_agent].actor.events[clock].launch);
    } else if (agent < sim->block_count + sim->plan->rank_count) {
        uint32_t next = sim->ranks[index_of_agent].actor.events[clock].launch;

        snprintf(text, size,
                 next == 1 ? "the application of rank %u before launch %u"
                           : "the application of rank %u after launch %u",
                 index_of_agent, next == 1 ? next : next - 1);
    } else {
        snprintf(text, size, "the proxy, for %s in launch %u", place,
                 sim->proxies[index_of_agent].actor.events[clock].launch);
    }
    return text;
}

/* Tries the buffers from the last kind down: in place, the cells that input and output share are called the output. */
const char *mscclpp_sim_cell_text(const mscclpp_sim_t *sim, size_t cell, bool is_packet, char *text, size_t size)
{
    for (uint32_t rank_number = 0; rank_number < sim->plan->rank_count; ++rank_number) {
        for (int type = MSCCLPP_PLAN_BUFFERS - 1; type >= 0; --type) {
            const mscclpp_sim_rank_t *rank = &sim->ranks[rank_number];
            size_t position = cell - rank->base[type], half_cells;

            if (cell < rank->base[type] || position >= rank->cells[type]) {
                continue;
            }
            if (type == MSCCLPP_PLAN_SCRATCH) {
                half_cells = sim->plan->halves ? rank->cells[type] / 2 : rank->cells[type];
                position %= half_cells;
                position /= is_packet ? 2 : 1;
                position /= sim->wrap_cells > 0 ? sim->wrap_cells : sim->cells_per_chunk;
            } else {
                position /= sim->cells_per_chunk;
            }
            snprintf(text, size, "chunk %zu of the %s of rank %u", position,
                     mscclpp_plan_buffer_name((mscclpp_plan_buffer_t)type), rank_number);
            return text;
        }
    }
    snprintf(text, size, "a chunk");
    return text;
}
