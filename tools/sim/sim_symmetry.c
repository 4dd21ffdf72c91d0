/*
 * Symmetry of schedules. Suppose that step i of node v is step i of node 0 with the partner rotated by v (peer + v) or
 * mirrored (peer xor v). Suppose also that the network treats all nodes alike. Then all nodes are in the same state at
 * any time, because they begin in the same state, and each event happens on all nodes at once. When node p sends a
 * message to node 0, node 0 sends the same message to another node at the same moment, in the same step. So node 0 can
 * be simulated alone, and receives its own messages. The result is exact, not an approximation.
 */
#include <stdlib.h>

#include "tools/sim/sim.h"

typedef enum { ROTATED, MIRRORED, NEITHER } symmetry_t;

/* Returns the partner that `node` must have in a step in which node 0 has partner `peer`. */
static uint32_t partner_image(symmetry_t symmetry, uint32_t peer, uint32_t node, uint32_t nodes)
{
    return symmetry == ROTATED ? (peer + node) % nodes : peer ^ node;
}

/*
 * Returns true if the symmetry maps the steps of node 0 onto those of every other node, for tiles of `tile` bytes. The
 * slots may differ: match_sends determines the slot in which a message arrives.
 */
static bool is_symmetry(const sim_run_t *run, symmetry_t symmetry, uint64_t tile)
{
    const mscclpp_schedule_t *schedule = &run->schedule;
    mscclpp_step_t step_of_zero, step;
    uint32_t node;
    uint64_t i;

    for (i = 0; mscclpp_schedule_find_step(schedule, 0, i, &step_of_zero); ++i) {
        const uint64_t step_bytes = mscclpp_schedule_message_bytes(schedule, &step_of_zero, tile);

        for (node = 1; node < schedule->nodes; ++node) {
            if (!mscclpp_schedule_find_step(schedule, node, i, &step) ||
                (step.kind == MSCCLPP_STEP_SEND) != (step_of_zero.kind == MSCCLPP_STEP_SEND) ||
                (step.kind == MSCCLPP_STEP_MERGE) != (step_of_zero.kind == MSCCLPP_STEP_MERGE) ||
                (step.kind == MSCCLPP_STEP_STORE) != (step_of_zero.kind == MSCCLPP_STEP_STORE) ||
                (step.kind == MSCCLPP_STEP_KEEP) != (step_of_zero.kind == MSCCLPP_STEP_KEEP) ||
                step.peer != partner_image(symmetry, step_of_zero.peer, node, schedule->nodes) ||
                mscclpp_schedule_message_bytes(schedule, &step, tile) != step_bytes) {
                return false;
            }
        }
    }
    /* No node has more steps than node 0. */
    for (node = 1; node < schedule->nodes; ++node) {
        if (mscclpp_schedule_find_step(schedule, node, i, &step)) {
            return false;
        }
    }
    return true;
}

/*
 * Returns true if the symmetry holds for all tiles of a block. Their sizes are two at most, because only the last one
 * may be shorter.
 */
static bool is_symmetry_for_tiles(const sim_run_t *run, symmetry_t symmetry, uint64_t block)
{
    const uint64_t last_tile = block % run->tile_bytes;

    return (block < run->tile_bytes || is_symmetry(run, symmetry, run->tile_bytes)) &&
           (last_tile == 0 || is_symmetry(run, symmetry, last_tile));
}

/*
 * Returns an array that has, for each step in which node 0 sends, the slot in which node 0 receives the same message.
 * The messages between two nodes are matched in order. When node 0 sends to `peer`, there is a node `from` whose
 * partner in this step is node 0 by the symmetry. This node sends the same message to node 0, so node 0 has a step that
 * receives it. The caller frees the array. Returns NULL if memory runs out.
 */
static uint32_t *match_sends(const mscclpp_schedule_t *schedule, symmetry_t symmetry)
{
    const uint64_t steps = mscclpp_schedule_count_steps(schedule, 0);
    uint32_t *slots = calloc(steps + 1, sizeof(*slots));
    /* [node]: the step at which the search for the next message from this node begins */
    uint64_t *next_step = calloc(schedule->nodes, sizeof(*next_step));
    mscclpp_step_t step, received;
    uint64_t i;

    for (i = 0; i < steps && slots != NULL && next_step != NULL; ++i) {
        uint32_t from;

        (void)mscclpp_schedule_find_step(schedule, 0, i, &step);
        if (step.kind != MSCCLPP_STEP_SEND) {
            continue;
        }
        from = symmetry == ROTATED ? (schedule->nodes - step.peer) % schedule->nodes : step.peer;
        do {
            if (!mscclpp_schedule_find_step(schedule, 0, next_step[from]++, &received)) {
                break;
            }
        } while (received.kind == MSCCLPP_STEP_SEND || received.kind == MSCCLPP_STEP_MERGE || received.peer != from);
        slots[i] = received.slot;
    }
    if (next_step == NULL) {
        free(slots);
        slots = NULL;
    }
    free(next_step);
    return slots;
}

/* Tries the mirrored symmetry first, which only powers of two can have, and then the rotated one. */
bool sim_is_symmetric(const sim_run_t *run, uint32_t **slots_p)
{
    const uint32_t nodes = run->schedule.nodes;
    const int pattern = run->schedule.pattern;
    const uint64_t block = (uint64_t)mscclpp_cost_find_load(pattern, nodes, run->ranks, run->bytes, false).block;
    symmetry_t symmetry = NEITHER;

    *slots_p = NULL;
    /*
     * All nodes must begin at the same time and have the same role, so there must be no late node, no dead node and no
     * root. Random delays or links between groups would also make nodes differ.
     */
    if (nodes < 2 || block == 0 || run->network != SIM_FULL || run->jitter > 0 || run->stragglers > 0 ||
        run->dead_node >= 0 || pattern == MSCCLPP_DEV_BCAST || pattern == MSCCLPP_DEV_REDUCE ||
        pattern == MSCCLPP_DEV_GATHER || pattern == MSCCLPP_DEV_SCATTER) {
        return false;
    }
    if ((nodes & (nodes - 1)) == 0 && is_symmetry_for_tiles(run, MIRRORED, block)) {
        symmetry = MIRRORED;
    } else if (is_symmetry_for_tiles(run, ROTATED, block)) {
        symmetry = ROTATED;
    }
    if (symmetry != NEITHER) {
        *slots_p = match_sends(&run->schedule, symmetry);
    }
    return symmetry != NEITHER;
}
