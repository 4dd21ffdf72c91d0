/*
 * Schedules whose number of steps grows with the logarithm of the number of nodes.
 *
 * Doubling and halving are for powers of two. With another number of nodes, the surplus nodes form pairs with their
 * neighbours. In each pair, one node first gives its data to the other one, which takes part for both and returns the
 * result. The participants are numbered anew, in the order of the nodes. So operands are always combined in the order
 * of the nodes, along one tree that depends only on the number of nodes.
 */
#include "mca/common/algo/schedule/kinds.h"

/* A node's part in an exchange of `power` participants, of which the first `pairs` are pairs of nodes. */
typedef struct {
    uint32_t power;
    uint32_t pairs;
    uint32_t number; /* number of the participant */
    bool paired;
    bool gives; /* this node gives its data to the other node of its pair, and does not take part itself */
} part_t;

/* A node's part in an exchange in which the largest possible power of two of participants takes part. */
static part_t part_of(uint32_t nodes, uint32_t node)
{
    part_t part = {.power = mscclpp_power_of_two(nodes)};

    part.pairs = nodes - part.power;
    part.paired = node < 2 * part.pairs;
    part.gives = part.paired && node % 2 == 1;
    part.number = part.paired ? node / 2 : node - part.pairs;
    return part;
}

static uint32_t node_of(const part_t *part, uint32_t number)
{
    return number < part->pairs ? 2 * number : number + part->pairs;
}

/*
 * Steps of a pair before and after the `steps` steps of the exchange. True if `index` is one of them. Otherwise, *inner
 * is the index within the exchange.
 */
static bool around(const mscclpp_schedule_t *schedule, uint32_t node, const part_t *part, uint64_t index,
                   uint64_t steps, uint64_t *inner, mscclpp_step_t *step_p, bool *found)
{
    const uint32_t last = schedule->rounds - 1;

    *inner = index;
    *found = true;
    if (part->gives) {
        *found = index < 2 && mscclpp_step_set(step_p, index == 0 ? MSCCLPP_STEP_SEND : MSCCLPP_STEP_STORE, node - 1, 0,
                                               schedule->blocks);
        (void)mscclpp_step_at(step_p, index == 0 ? 0 : last, index == 0 ? 0 : last, *found);
        step_p->place = index == 0 ? 2 * schedule->blocks : 0;
        return true;
    }
    if (part->paired && index == 0) {
        (void)mscclpp_step_set(step_p, MSCCLPP_STEP_AFTER, node + 1, 0, schedule->blocks);
        step_p->place = 2 * schedule->blocks;
        return true;
    }
    *inner = index - (part->paired ? 1 : 0);
    if (part->paired && *inner == steps) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, node + 1, 0, schedule->blocks) &&
               mscclpp_step_at(step_p, last, last, true);
    }
    *found = false;
    return *inner >= steps;
}

bool mscclpp_schedule_doubling(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                               mscclpp_step_t *step_p)
{
    const part_t part = part_of(schedule->nodes, node);
    uint32_t partner, round;
    uint64_t inner;
    bool found;

    if (around(schedule, node, &part, index, 2 * (uint64_t)mscclpp_log2(part.power), &inner, step_p, &found)) {
        return found;
    }
    partner = part.number ^ (1u << (inner / 2));
    (void)mscclpp_step_set(step_p,
                           inner % 2 == 0          ? MSCCLPP_STEP_SEND
                           : partner < part.number ? MSCCLPP_STEP_BEFORE
                                                   : MSCCLPP_STEP_AFTER,
                           node_of(&part, partner), 0, schedule->blocks);
    round = (uint32_t)(inner / 2) + (part.pairs > 0 ? 1 : 0);
    return mscclpp_step_at(step_p, round, round, true);
}

/*
 * The first of the blocks that a participant still has after so many steps of halving: in step i it keeps the lower
 * half if bit i of its number is 0, else the upper one.
 */
static uint32_t kept_by(const part_t *part, uint32_t number, uint32_t steps)
{
    uint32_t first = 0, i;

    for (i = 0; i < steps; ++i) {
        first += (number >> i & 1) * (part->power >> (i + 1));
    }
    return first;
}

/*
 * R. Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004. In step i, participants at the distance
 * 2^i exchange and combine half of what they still have. Then they return the results, with the distances in reverse
 * order. So neighbours exchange most, and blocks are combined along the same tree as by doubling. What is to be
 * combined arrives behind the node's own blocks, larger messages first, and behind these what a pair gives. Results
 * arrive in place.
 */
bool mscclpp_schedule_halving(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const part_t part = part_of(schedule->nodes, node);
    const uint32_t log2 = mscclpp_log2(part.power);
    uint32_t round, step, count, partner, own, other;
    uint64_t inner;
    bool found, sends, halves;

    if (around(schedule, node, &part, index, 4 * (uint64_t)log2, &inner, step_p, &found)) {
        return found;
    }
    sends = inner % 2 == 0;
    round = (uint32_t)(inner / 2);
    halves = round < log2;
    step = halves ? round : 2 * log2 - 1 - round;
    count = part.power >> (step + 1);
    partner = part.number ^ (1u << step);
    own = kept_by(&part, part.number, step + 1);
    other = kept_by(&part, partner, step + 1);
    (void)mscclpp_step_set(step_p,
                           sends                   ? MSCCLPP_STEP_SEND
                           : !halves               ? MSCCLPP_STEP_STORE
                           : partner < part.number ? MSCCLPP_STEP_BEFORE
                                                   : MSCCLPP_STEP_AFTER,
                           node_of(&part, partner), sends == halves ? other : own, count);
    step_p->place = halves ? 2 * (part.power - count) : step_p->first;
    round += part.pairs > 0 ? 1 : 0;
    return mscclpp_step_at(step_p, round, round, true);
}

/*
 * A k-nomial tree over numbers relative to the root. The parent of a number has the number's lowest digit other than 0,
 * in base k, set to 0. So the subtree of a child is a run of consecutive numbers, as many as the place value of that
 * digit.
 */
typedef struct {
    uint64_t worth; /* place value of the lowest digit other than 0; for the root, the first one beyond all numbers */
    uint32_t parent;
    uint32_t slot; /* index of this number among the children that its parent may have */
} place_t;

/* The place of a number in the k-nomial tree. */
static place_t place_of(uint32_t nodes, uint32_t radix, uint32_t number)
{
    place_t place = {.worth = 1};
    uint32_t left;

    while (place.worth < nodes && number % (place.worth * radix) == 0) {
        place.worth *= radix;
        place.slot += radix - 1;
    }
    left = (uint32_t)(number % (place.worth * radix));
    place.parent = number - left;
    place.slot += left > 0 ? (uint32_t)(left / place.worth) - 1 : 0;
    return place;
}

/* Child `index` of a number, those with the largest subtrees first. */
static bool child_of(uint32_t nodes, uint32_t radix, uint32_t number, uint64_t index, uint32_t *child)
{
    uint64_t worth = place_of(nodes, radix, number).worth;

    for (worth /= radix; worth > 0; worth /= radix) {
        const uint64_t fit = (nodes - 1 - number) / worth, children = fit < radix - 1 ? fit : radix - 1;

        if (index < children) {
            *child = number + (uint32_t)((index + 1) * worth);
            return true;
        }
        index -= children;
    }
    return false;
}

/* The number of children of a number in the k-nomial tree. */
static uint32_t count_children(uint32_t nodes, uint32_t radix, uint32_t number)
{
    uint64_t worth = place_of(nodes, radix, number).worth;
    uint32_t all = 0;

    for (worth /= radix; worth > 0; worth /= radix) {
        const uint64_t fit = (nodes - 1 - number) / worth;

        all += (uint32_t)(fit < radix - 1 ? fit : radix - 1);
    }
    return all;
}

/* From the root to the leaves. The one message that a node gets takes the last slot. */
static bool down(const mscclpp_schedule_t *schedule, uint32_t number, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t n = schedule->nodes, root = schedule->root;
    const place_t place = place_of(n, schedule->radix, number);
    uint32_t child;

    if (number != 0 && index == 0) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_STORE, (place.parent + root) % n, 0, 1) &&
               mscclpp_step_at(step_p, 2, schedule->slots - 1, true);
    }
    return child_of(n, schedule->radix, number, index - (number != 0), &child) &&
           mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, (child + root) % n, 0, 1) &&
           mscclpp_step_at(step_p, 2 + (number != 0), schedule->slots - 1, true);
}

/*
 * Steps from the leaves to the root; small subtrees are complete first. `children` is the number of this node's
 * children.
 */
static bool up(const mscclpp_schedule_t *schedule, uint32_t number, uint64_t index, uint32_t children,
               mscclpp_step_t *step_p)
{
    const uint32_t n = schedule->nodes, root = schedule->root;
    const place_t place = place_of(n, schedule->radix, number);
    uint32_t child;

    if (index < children) {
        return child_of(n, schedule->radix, number, children - 1 - index, &child) &&
               mscclpp_step_set(step_p, MSCCLPP_STEP_KEEP, (child + root) % n, 0, 1) &&
               mscclpp_step_at(step_p, 0, place_of(n, schedule->radix, child).slot, true);
    }
    if (children > 0 && index == children) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_MERGE, (number + root) % n, 0, 1);
    }
    return number != 0 && index == children + (uint64_t)(children > 0) &&
           mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, (place.parent + root) % n, 0, 1) &&
           mscclpp_step_at(step_p, children > 0, place.slot, true);
}

/* An all-reduce goes up the tree and down again. */
bool mscclpp_schedule_tree(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t n = schedule->nodes, number = (node + n - schedule->root) % n;
    uint32_t children;
    uint64_t before;

    if (schedule->pattern != MSCCLPP_SCHEDULE_ALLREDUCE) {
        return mscclpp_schedule_rounds(schedule, node, index, step_p);
    }
    children = count_children(n, schedule->radix, number);
    before = children + (uint64_t)(children > 0) + (number != 0);
    return index < before ? up(schedule, number, index, children, step_p)
                          : down(schedule, number, index - before, step_p);
}
