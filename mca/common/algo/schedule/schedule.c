#include "mca/common/algo/schedule/schedule.h"

#include <string.h>

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

/* True if schedules of this kind support the pattern. */
static bool is_for(mscclpp_schedule_kind_t kind, int pattern)
{
    switch (kind) {
    case MSCCLPP_SCHEDULE_DIRECT:
        return true;
    case MSCCLPP_SCHEDULE_RING:
        return pattern == MSCCLPP_SCHEDULE_ALLREDUCE || pattern == MSCCLPP_DEV_ALLGATHER;
    case MSCCLPP_SCHEDULE_TREE:
        return pattern == MSCCLPP_SCHEDULE_ALLREDUCE || pattern == MSCCLPP_DEV_BCAST || pattern == MSCCLPP_DEV_REDUCE ||
               pattern == MSCCLPP_DEV_GATHER || pattern == MSCCLPP_DEV_SCATTER;
    case MSCCLPP_SCHEDULE_BRUCK:
        return pattern == MSCCLPP_DEV_ALLGATHER || pattern == MSCCLPP_DEV_ALLTOALL ||
               pattern == MSCCLPP_DEV_REDUCE_SCATTER;
    default:
        return pattern == MSCCLPP_SCHEDULE_ALLREDUCE;
    }
}

/* The number of blocks that steps of such a schedule refer to. */
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

/* Counts the rounds and slots of a schedule. */
static void count_rounds(mscclpp_schedule_t *s)
{
    const uint32_t n = s->nodes, digits = mscclpp_digits(n, s->radix), log2 = mscclpp_log2(n);
    const uint32_t pairing = n > mscclpp_power_of_two(n) ? 2 : 0;
    const bool reduces = s->pattern == MSCCLPP_SCHEDULE_ALLREDUCE;

    switch (s->kind) {
    case MSCCLPP_SCHEDULE_SPLIT:
        s->rounds = 2;
        s->slots = 2 * n;
        return;
    case MSCCLPP_SCHEDULE_RING:
        s->rounds = s->slots = (reduces ? 2 : 1) * (n - 1);
        return;
    case MSCCLPP_SCHEDULE_DOUBLING:
        s->rounds = s->slots = log2 + pairing;
        return;
    case MSCCLPP_SCHEDULE_HALVING:
        s->rounds = s->slots = 2 * log2 + pairing;
        s->places = (pairing > 0 ? 3 : 2) * s->blocks;
        return;
    case MSCCLPP_SCHEDULE_TREE:
    case MSCCLPP_SCHEDULE_BRUCK:
        s->rounds = reduces ? 4 : digits;
        s->slots = digits * (s->radix - 1) + (reduces ? 1 : 0);
        return;
    default:
        s->rounds = 1;
        s->slots = s->pattern == MSCCLPP_DEV_BCAST || s->pattern == MSCCLPP_DEV_SCATTER ? 1 : n;
        return;
    }
}

bool mscclpp_schedule_init(mscclpp_schedule_t *schedule, mscclpp_schedule_kind_t kind, int pattern, uint32_t nodes,
                           uint32_t root, uint32_t fanout, uint32_t radix)
{
    if (kind >= MSCCLPP_SCHEDULE_LAST || !is_for(kind, pattern) || nodes < 1 || nodes > MSCCLPP_SCHEDULE_MAX_NODES ||
        root >= nodes || radix == 1 || radix > MSCCLPP_SCHEDULE_MAX_RADIX) {
        return false;
    }
    *schedule = (mscclpp_schedule_t){.kind = kind,
                                     .pattern = pattern,
                                     .nodes = nodes,
                                     .root = root,
                                     .fanout = fanout,
                                     .radix = radix == 0 ? 2 : radix,
                                     .blocks = count_blocks(kind, pattern, nodes)};
    count_rounds(schedule);
    return true;
}

bool mscclpp_schedule_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    return schedule->nodes > 1 && kinds[schedule->kind].step(schedule, node, index, step_p);
}

uint64_t mscclpp_schedule_steps(const mscclpp_schedule_t *schedule, uint32_t node)
{
    uint64_t least = 0, most = 1;
    mscclpp_step_t step;

    while (mscclpp_schedule_step(schedule, node, most - 1, &step)) {
        least = most;
        most *= 2;
    }
    /* Invariant: step least - 1 exists, and step most - 1 does not. */
    while (least + 1 < most) {
        const uint64_t middle = least + (most - least) / 2;

        if (mscclpp_schedule_step(schedule, node, middle - 1, &step)) {
            least = middle;
        } else {
            most = middle;
        }
    }
    return least;
}

uint64_t mscclpp_schedule_bytes(const mscclpp_schedule_t *schedule, const mscclpp_step_t *step, uint64_t bytes)
{
    uint32_t before;

    if (schedule->pattern != MSCCLPP_SCHEDULE_ALLREDUCE) {
        return step->count * bytes;
    }
    before = schedule->blocks - step->first < step->count ? schedule->blocks - step->first : step->count;
    return mscclpp_schedule_part(bytes, schedule->blocks, step->first, before) +
           mscclpp_schedule_part(bytes, schedule->blocks, 0, step->count - before);
}
