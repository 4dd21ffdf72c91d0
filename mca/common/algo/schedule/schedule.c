#include "mca/common/algo/schedule/schedule.h"

#include <string.h>

#include "device/types/coll_nodes.h"
#include "mca/common/algo/schedule/kinds.h"

static const struct {
    const char *name;
    mscclpp_schedule_step_t *step;
} kinds[MSCCLPP_SCHEDULE_LAST] = {
    [MSCCLPP_SCHEDULE_DIRECT] = {"direct", mscclpp_schedule_direct},
    [MSCCLPP_SCHEDULE_SPLIT] = {"split", mscclpp_schedule_split},
    [MSCCLPP_SCHEDULE_RING] = {"ring", mscclpp_schedule_ring},
    [MSCCLPP_SCHEDULE_DOUBLING] = {"doubling", mscclpp_schedule_doubling},
    [MSCCLPP_SCHEDULE_HALVING] = {"halving", mscclpp_schedule_halving},
    [MSCCLPP_SCHEDULE_TREE] = {"tree", mscclpp_schedule_tree},
    [MSCCLPP_SCHEDULE_BRUCK] = {"bruck", mscclpp_schedule_rounds},
    [MSCCLPP_SCHEDULE_TREES] = {"trees", mscclpp_schedule_trees},
};

const char *mscclpp_schedule_name(mscclpp_schedule_kind_t kind)
{
    return kinds[kind].name;
}

mscclpp_schedule_kind_t mscclpp_schedule_find(const char *name)
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
    if (pattern == MSCCLPP_SCHEDULE_ALLREDUCE) {
        return kind == MSCCLPP_SCHEDULE_HALVING                                  ? mscclpp_power_of_two(nodes)
               : kind == MSCCLPP_SCHEDULE_SPLIT || kind == MSCCLPP_SCHEDULE_RING ? nodes
                                                                                 : 1;
    }
    return pattern == MSCCLPP_DEV_BCAST || pattern == MSCCLPP_DEV_REDUCE || pattern == MSCCLPP_DEV_SCAN ||
                   pattern == MSCCLPP_DEV_EXSCAN
               ? 1
               : nodes;
}

/*
 * Sets the numbers of rounds, slots and places of a schedule whose other fields are set. `places` stays 0 except for an
 * all-reduce by halving, the only schedule that needs places.
 */
static void count_rounds(mscclpp_schedule_t *schedule)
{
    const uint32_t nodes = schedule->nodes, digits = mscclpp_digits(nodes, schedule->radix), log2 = mscclpp_log2(nodes);
    const uint32_t pair_steps = nodes > mscclpp_power_of_two(nodes) ? 2 : 0;
    const bool reduces = schedule->pattern == MSCCLPP_SCHEDULE_ALLREDUCE;

    switch (schedule->kind) {
    case MSCCLPP_SCHEDULE_SPLIT:
        schedule->rounds = 2;
        schedule->slots = 2 * nodes;
        return;
    case MSCCLPP_SCHEDULE_RING:
        schedule->rounds = schedule->slots = (reduces ? 2 : 1) * (nodes - 1);
        return;
    case MSCCLPP_SCHEDULE_DOUBLING:
        schedule->rounds = schedule->slots = log2 + pair_steps;
        return;
    case MSCCLPP_SCHEDULE_HALVING:
        schedule->rounds = schedule->slots = reduces ? 2 * log2 + pair_steps : digits;
        schedule->places = reduces ? (pair_steps > 0 ? 3 : 2) * schedule->blocks : 0;
        return;
    case MSCCLPP_SCHEDULE_TREES:
        /*
         * An all-reduce goes up in rounds 0 and 1, and down in rounds 2 and 3. Slots: for each child; for the parent.
         */
        schedule->rounds = reduces ? 4 : 2;
        schedule->slots = reduces ? 3 : schedule->pattern == MSCCLPP_DEV_REDUCE ? 2 : 1;
        return;
    case MSCCLPP_SCHEDULE_TREE:
    case MSCCLPP_SCHEDULE_BRUCK:
        /* An all-reduce goes up the tree in rounds 0 and 1, and down in rounds 2 and 3, with one slot for that. */
        schedule->rounds = reduces ? 4 : digits;
        schedule->slots = digits * (schedule->radix - 1) + (reduces ? 1 : 0);
        return;
    case MSCCLPP_SCHEDULE_DIRECT:
    case MSCCLPP_SCHEDULE_LAST:
        schedule->rounds = 1;
        schedule->slots =
            schedule->pattern == MSCCLPP_DEV_BCAST || schedule->pattern == MSCCLPP_DEV_SCATTER ? 1 : nodes;
        return;
    }
}

/*
 * Halving always has radix 2, whatever radix is asked for: outside of all-reduces it consists of rounds, which need a
 * radix.
 */
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
    count_rounds(schedule);
    return true;
}

bool mscclpp_schedule_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    return schedule->nodes > 1 && kinds[schedule->kind].step(schedule, node, index, step_p);
}

/*
 * Searches for the end of the list, first by doubling and then by halving. This is possible because a list has no gaps:
 * if step i exists, all steps before it exist.
 */
uint64_t mscclpp_schedule_steps(const mscclpp_schedule_t *schedule, uint32_t node)
{
    uint64_t low = 0, high = 1;
    mscclpp_step_t step;

    while (mscclpp_schedule_step(schedule, node, high - 1, &step)) {
        low = high;
        high *= 2;
    }
    /* Step low - 1 exists, and step high - 1 does not. */
    while (low + 1 < high) {
        const uint64_t middle = low + (high - low) / 2;

        if (mscclpp_schedule_step(schedule, node, middle - 1, &step)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t mscclpp_schedule_bytes(const mscclpp_schedule_t *schedule, const mscclpp_step_t *step, uint64_t bytes)
{
    uint32_t before_wrap;

    if (schedule->pattern != MSCCLPP_SCHEDULE_ALLREDUCE) {
        return step->count * bytes;
    }
    before_wrap = schedule->blocks - step->first < step->count ? schedule->blocks - step->first : step->count;
    return mscclpp_schedule_part(bytes, schedule->blocks, step->first, before_wrap) +
           mscclpp_schedule_part(bytes, schedule->blocks, 0, step->count - before_wrap);
}
