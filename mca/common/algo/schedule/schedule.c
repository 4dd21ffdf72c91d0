#include "mca/common/algo/schedule/schedule.h"

#include <string.h>

#include "device/types/coll_nodes.h"
#include "mca/common/algo/schedule/kinds.h"

static const struct {
    const char *name;
    mscclpp_find_step_t *step;
} kinds[MSCCLPP_SCHEDULE_LAST] = {
    [MSCCLPP_SCHEDULE_DIRECT] = {"direct", mscclpp_find_direct_step},
    [MSCCLPP_SCHEDULE_SPLIT] = {"split", mscclpp_find_split_step},
    [MSCCLPP_SCHEDULE_RING] = {"ring", mscclpp_find_ring_step},
    [MSCCLPP_SCHEDULE_DOUBLING] = {"doubling", mscclpp_find_doubling_step},
    [MSCCLPP_SCHEDULE_HALVING] = {"halving", mscclpp_find_halving_step},
    [MSCCLPP_SCHEDULE_TREE] = {"tree", mscclpp_find_tree_step},
    [MSCCLPP_SCHEDULE_BRUCK] = {"bruck", mscclpp_find_rounds_step},
    [MSCCLPP_SCHEDULE_TREES] = {"trees", mscclpp_find_trees_step},
};

const char *mscclpp_schedule_kind_name(mscclpp_schedule_kind_t kind)
{
    return kinds[kind].name;
}

mscclpp_schedule_kind_t mscclpp_schedule_find_kind(const char *name)
{
    int kind = 0;

    while (kind < MSCCLPP_SCHEDULE_LAST && strcmp(name, kinds[kind].name) != 0) {
        ++kind;
    }
    return (mscclpp_schedule_kind_t)kind;
}

/* Returns true if there are schedules of this kind for this pattern. */
static bool supports(mscclpp_schedule_kind_t kind, int pattern)
{
    switch (kind) {
    case MSCCLPP_SCHEDULE_DIRECT:
        return true;
    case MSCCLPP_SCHEDULE_RING:
    case MSCCLPP_SCHEDULE_HALVING:
        return pattern == MSCCLPP_SCHEDULE_ALLREDUCE || MSCCLPP_DEV_COLL_RINGS(pattern);
    case MSCCLPP_SCHEDULE_TREE:
        return pattern == MSCCLPP_SCHEDULE_ALLREDUCE || pattern == MSCCLPP_DEV_BCAST || pattern == MSCCLPP_DEV_REDUCE ||
               pattern == MSCCLPP_DEV_GATHER || pattern == MSCCLPP_DEV_SCATTER;
    case MSCCLPP_SCHEDULE_BRUCK:
        return pattern == MSCCLPP_DEV_ALLGATHER || pattern == MSCCLPP_DEV_ALLTOALL ||
               pattern == MSCCLPP_DEV_REDUCE_SCATTER || MSCCLPP_DEV_COLL_SCANS(pattern);
    case MSCCLPP_SCHEDULE_TREES:
        return pattern == MSCCLPP_SCHEDULE_ALLREDUCE || pattern == MSCCLPP_DEV_BCAST || pattern == MSCCLPP_DEV_REDUCE;
    case MSCCLPP_SCHEDULE_SPLIT:
    case MSCCLPP_SCHEDULE_DOUBLING:
        return pattern == MSCCLPP_SCHEDULE_ALLREDUCE;
    case MSCCLPP_SCHEDULE_LAST:
        break;
    }
    return false;
}

/* Returns the number of blocks to which the steps of a schedule refer (schedule.h). */
static uint32_t count_blocks(mscclpp_schedule_kind_t kind, int pattern, uint32_t nodes)
{
    switch (pattern) {
    case MSCCLPP_SCHEDULE_ALLREDUCE:
        if (kind == MSCCLPP_SCHEDULE_HALVING) {
            return mscclpp_round_down_to_power_of_two(nodes);
        }
        return kind == MSCCLPP_SCHEDULE_SPLIT || kind == MSCCLPP_SCHEDULE_RING ? nodes : 1;
    case MSCCLPP_DEV_BCAST:
    case MSCCLPP_DEV_REDUCE:
    case MSCCLPP_DEV_SCAN:
    case MSCCLPP_DEV_EXSCAN:
        return 1;
    default:
        return nodes;
    }
}

/* Sets the numbers of rounds, slots and places of an all-reduce. Only halving needs places. */
static void count_rounds_of_allreduce(mscclpp_schedule_t *schedule)
{
    const uint32_t nodes = schedule->nodes, log2_nodes = mscclpp_log2(nodes);
    const uint32_t digits = mscclpp_count_digits(nodes, schedule->radix);
    const uint32_t pair_steps = nodes > mscclpp_round_down_to_power_of_two(nodes) ? 2 : 0;

    switch (schedule->kind) {
    case MSCCLPP_SCHEDULE_SPLIT: /* each round has a slot for each sender */
        schedule->rounds = 2;
        schedule->slots = 2 * nodes;
        return;
    case MSCCLPP_SCHEDULE_RING: /* from here on to DOUBLING, each round has one slot */
        schedule->rounds = schedule->slots = 2 * (nodes - 1);
        return;
    case MSCCLPP_SCHEDULE_HALVING:
        schedule->rounds = schedule->slots = 2 * log2_nodes + pair_steps;
        schedule->places = (pair_steps > 0 ? 3 : 2) * schedule->blocks;
        return;
    case MSCCLPP_SCHEDULE_DOUBLING:
        schedule->rounds = schedule->slots = log2_nodes + pair_steps;
        return;
    case MSCCLPP_SCHEDULE_TREES: /* up in rounds 0 and 1, down in rounds 2 and 3; a slot for each neighbour */
        schedule->rounds = 4;
        schedule->slots = 3;
        return;
    case MSCCLPP_SCHEDULE_TREE: /* the same rounds; the last slot is for the way down */
        schedule->rounds = 4;
        schedule->slots = digits * (schedule->radix - 1) + 1;
        return;
    default: /* DIRECT */
        schedule->rounds = 1;
        schedule->slots = nodes;
        return;
    }
}

/* Sets the numbers of rounds and slots of a collective other than all-reduce. */
static void count_rounds_of_coll(mscclpp_schedule_t *schedule)
{
    const uint32_t nodes = schedule->nodes, digits = mscclpp_count_digits(nodes, schedule->radix);
    const bool is_from_root = schedule->pattern == MSCCLPP_DEV_BCAST || schedule->pattern == MSCCLPP_DEV_SCATTER;

    switch (schedule->kind) {
    case MSCCLPP_SCHEDULE_RING:
        schedule->rounds = schedule->slots = nodes - 1;
        return;
    case MSCCLPP_SCHEDULE_HALVING:
        schedule->rounds = schedule->slots = digits;
        return;
    case MSCCLPP_SCHEDULE_TREES: /* a node receives from two children in a reduce, and from its parent otherwise */
        schedule->rounds = 2;
        schedule->slots = schedule->pattern == MSCCLPP_DEV_REDUCE ? 2 : 1;
        return;
    case MSCCLPP_SCHEDULE_TREE:
    case MSCCLPP_SCHEDULE_BRUCK: /* each round has a slot for each digit other than 0 */
        schedule->rounds = digits;
        schedule->slots = digits * (schedule->radix - 1);
        return;
    default: /* DIRECT */
        schedule->rounds = 1;
        schedule->slots = is_from_root ? 1 : nodes;
        return;
    }
}

/* Halving always has radix 2: apart from all-reduces, it consists of rounds, which need a radix. */
bool mscclpp_schedule_init(mscclpp_schedule_t *schedule, mscclpp_schedule_kind_t kind, int pattern, uint32_t nodes,
                           uint32_t root, uint32_t fanout, uint32_t radix)
{
    if (kind >= MSCCLPP_SCHEDULE_LAST || !supports(kind, pattern) || nodes < 1 || nodes > MSCCLPP_SCHEDULE_MAX_NODES ||
        root >= nodes || radix == 1 || radix > MSCCLPP_SCHEDULE_MAX_RADIX) {
        return false;
    }
    *schedule = (mscclpp_schedule_t){.kind = kind,
                                     .pattern = pattern,
                                     .nodes = nodes,
                                     .root = root,
                                     .fanout = fanout,
                                     .radix = radix == 0 || kind == MSCCLPP_SCHEDULE_HALVING ? 2 : radix,
                                     .blocks = count_blocks(kind, pattern, nodes)};
    if (pattern == MSCCLPP_SCHEDULE_ALLREDUCE) {
        count_rounds_of_allreduce(schedule);
    } else {
        count_rounds_of_coll(schedule);
    }
    return true;
}

bool mscclpp_schedule_find_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                mscclpp_step_t *step_p)
{
    return schedule->nodes > 1 && kinds[schedule->kind].step(schedule, node, index, step_p);
}

/*
 * Searches for the end of the list, first by doubling and then by halving. This is possible because a list has no gaps:
 * if step i exists, all steps before it exist.
 */
uint64_t mscclpp_schedule_count_steps(const mscclpp_schedule_t *schedule, uint32_t node)
{
    uint64_t low = 0, high = 1;
    mscclpp_step_t step;

    while (mscclpp_schedule_find_step(schedule, node, high - 1, &step)) {
        low = high;
        high *= 2;
    }
    /* Step low - 1 exists, and step high - 1 does not. */
    while (low + 1 < high) {
        const uint64_t middle = low + (high - low) / 2;

        if (mscclpp_schedule_find_step(schedule, node, middle - 1, &step)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t mscclpp_schedule_message_bytes(const mscclpp_schedule_t *schedule, const mscclpp_step_t *step, uint64_t bytes)
{
    uint32_t before_wrap; /* number of the step's blocks up to the last block; the others continue at block 0 */

    if (schedule->pattern != MSCCLPP_SCHEDULE_ALLREDUCE) {
        return step->count * bytes;
    }
    before_wrap = (uint32_t)mscclpp_min(schedule->blocks - step->first, step->count);
    return mscclpp_schedule_part_bytes(bytes, schedule->blocks, step->first, before_wrap) +
           mscclpp_schedule_part_bytes(bytes, schedule->blocks, 0, step->count - before_wrap);
}
