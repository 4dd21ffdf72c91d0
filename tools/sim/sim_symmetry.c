/*
 * Symmetry of schedules. Suppose that step i of node v is step i of node 0 with the partner rotated by v (peer + v) or
 * mirrored (peer xor v), and that the network treats all nodes alike. Then all nodes are in the same state at any time:
 * they are at the beginning, and each event happens on all of them at once. When node 0 receives from p, node 0 itself
 * sends the same message at the same moment, in the step whose image is p's send. So node 0 can be simulated alone, and
 * receives its own messages. This is exact, not an approximation.
 */
#include <stdlib.h>

#include "tools/sim/sim.h"

typedef enum { TURNED, MIRRORED, NEITHER } symmetry_t;

/* The partner of `node` in a step in which node 0 has partner `peer`. */
static uint32_t image(symmetry_t symmetry, uint32_t peer, uint32_t node, uint32_t nodes)
{
    return symmetry == TURNED ? (peer + node) % nodes : peer ^ node;
}

/* Whether the steps of all nodes are images of those of node 0, for a block of this size. */
static bool holds(const sim_run_t *run, symmetry_t symmetry, uint64_t block)
{
    const mscclpp_schedule_t *s = &run->schedule;
    mscclpp_step_t zero, step;
    uint32_t node;
    uint64_t i;

    for (i = 0; mscclpp_schedule_step(s, 0, i, &zero); ++i) {
        const uint64_t bytes = mscclpp_schedule_bytes(s, &zero, block);

        for (node = 1; node < s->nodes; ++node) {
            if (!mscclpp_schedule_step(s, node, i, &step) ||
                (step.kind == MSCCLPP_STEP_SEND) != (zero.kind == MSCCLPP_STEP_SEND) ||
                (step.kind == MSCCLPP_STEP_MERGE) != (zero.kind == MSCCLPP_STEP_MERGE) ||
                (step.kind == MSCCLPP_STEP_STORE) != (zero.kind == MSCCLPP_STEP_STORE) ||
                (step.kind == MSCCLPP_STEP_KEEP) != (zero.kind == MSCCLPP_STEP_KEEP) ||
                step.peer != image(symmetry, zero.peer, node, s->nodes) ||
                mscclpp_schedule_bytes(s, &step, block) != bytes) {
                return false;
            }
        }
    }
    for (node = 1; node < s->nodes; ++node) {
        if (mscclpp_schedule_step(s, node, i, &step)) {
            return false;
        }
    }
    return true;
}

/* Whether the symmetry holds for tiles of both sizes: all tiles of a block have one size, but for the last one. */
static bool holds_for_tiles(const sim_run_t *run, symmetry_t symmetry, uint64_t block)
{
    const uint64_t rest = block % run->tile;

    return (block < run->tile || holds(run, symmetry, run->tile)) && (rest == 0 || holds(run, symmetry, rest));
}

/* For each step in which node 0 sends: the slot in which it receives the same message. Messages between two nodes
 * are matched in order. The caller frees the array. NULL without memory. */
static uint32_t *match_sends(const mscclpp_schedule_t *s, symmetry_t symmetry)
{
    const uint64_t steps = mscclpp_schedule_steps(s, 0);
    uint32_t *receives = calloc(steps + 1, sizeof(*receives));
    uint64_t *next = calloc(s->nodes, sizeof(*next)); /* by peer: where to look for the next step that receives */
    mscclpp_step_t step, other;
    uint64_t i;

    for (i = 0; i < steps && receives != NULL && next != NULL; ++i) {
        uint32_t from;

        (void)mscclpp_schedule_step(s, 0, i, &step);
        if (step.kind != MSCCLPP_STEP_SEND) {
            continue;
        }
        from = symmetry == TURNED ? (s->nodes - step.peer) % s->nodes : step.peer;
        do {
            if (!mscclpp_schedule_step(s, 0, next[from]++, &other)) {
                break;
            }
        } while (other.kind == MSCCLPP_STEP_SEND || other.kind == MSCCLPP_STEP_MERGE || other.peer != from);
        receives[i] = other.slot;
    }
    if (next == NULL) {
        free(receives);
        receives = NULL;
    }
    free(next);
    return receives;
}

bool sim_is_symmetric(const sim_run_t *run, uint32_t **receives_p)
{
    const uint32_t nodes = run->schedule.nodes;
    const int pattern = run->schedule.pattern;
    const uint64_t block = (uint64_t)mscclpp_cost_load(pattern, nodes, run->ranks, run->bytes, false).block;
    symmetry_t symmetry = NEITHER;

    *receives_p = NULL;
    if (nodes < 2 || block == 0 || run->network != SIM_FULL || run->jitter > 0 || run->stragglers > 0 ||
        run->dead >= 0 || pattern == MSCCLPP_DEV_BCAST || pattern == MSCCLPP_DEV_REDUCE ||
        pattern == MSCCLPP_DEV_GATHER || pattern == MSCCLPP_DEV_SCATTER) {
        return false;
    }
    if ((nodes & (nodes - 1)) == 0 && holds_for_tiles(run, MIRRORED, block)) {
        symmetry = MIRRORED;
    } else if (holds_for_tiles(run, TURNED, block)) {
        symmetry = TURNED;
    }
    if (symmetry != NEITHER) {
        *receives_p = match_sends(&run->schedule, symmetry);
    }
    return symmetry != NEITHER;
}
