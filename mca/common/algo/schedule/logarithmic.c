/*
 * Schedules whose number of steps grows with the logarithm of the number of nodes. Functions that find a step return
 * false if the node's list has no such step.
 *
 * Doubling and halving are for powers of two. With another number of nodes, the surplus nodes form pairs with their
 * neighbours. In each pair, one node first gives its data to the other one, which takes part for both and returns the
 * result. The participants are numbered anew, in the order of the nodes. So operands are always combined in the order
 * of the nodes, along one tree that depends only on the number of nodes.
 */
#include "mca/common/algo/schedule/kinds.h"

/* A node's role in an exchange of `power` participants, of which the first `pairs` stand for a pair of nodes each. */
typedef struct {
    uint32_t power;
    uint32_t pairs;
    uint32_t number; /* number of the participant that this node is, or that takes part for this node */
    bool is_paired;  /* this node is one of a pair */
    bool gives;      /* this node gives its data to the other node of its pair, and does not take part itself */
} role_t;

/* Returns the role of a node in an exchange with as many participants as the largest power of two up to `nodes`. */
static role_t find_role(uint32_t nodes, uint32_t node)
{
    role_t role = {.power = mscclpp_round_down_to_power_of_two(nodes)};

    role.pairs = nodes - role.power;
    role.is_paired = node < 2 * role.pairs;
    role.gives = role.is_paired && node % 2 == 1;
    role.number = role.is_paired ? node / 2 : node - role.pairs;
    return role;
}

/* Returns the node that is participant `number`. In a pair, it is the even node, which takes part for both. */
static uint32_t find_participant(const role_t *role, uint32_t number)
{
    return number < role->pairs ? 2 * number : number + role->pairs;
}

/*
 * Finds step `index` of a node that gives its data to the other node of its pair. It sends its data first, and receives
 * the result at the end. Data of a pair arrives behind all other data that its receiver has.
 */
static bool find_giving_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t last_round = schedule->rounds - 1;

    if (index == 0) {
        (void)mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, node - 1, 0, schedule->blocks);
        step_p->place = 2 * schedule->blocks;
        return true;
    }
    return index == 1 && mscclpp_step_set(step_p, MSCCLPP_STEP_STORE, node - 1, 0, schedule->blocks) &&
           mscclpp_step_set_slot(step_p, last_round, last_round);
}

/*
 * Finds step `index` of a node that takes part for both nodes of a pair, if it is a step within the pair. The node
 * receives the data of the other node first, and sends the result after the `exchange_steps` steps of the exchange.
 */
static bool find_taking_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, uint64_t exchange_steps,
                             mscclpp_step_t *step_p)
{
    const uint32_t last_round = schedule->rounds - 1;

    if (index == 0) {
        (void)mscclpp_step_set(step_p, MSCCLPP_STEP_AFTER, node + 1, 0, schedule->blocks);
        step_p->place = 2 * schedule->blocks;
        return true;
    }
    return index == exchange_steps + 1 && mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, node + 1, 0, schedule->blocks) &&
           mscclpp_step_set_slot(step_p, last_round, last_round);
}

/* Finds step `index` of an exchange between participants. The exchange has this step. */
typedef void find_exchange_step_t(const role_t *role, uint64_t index, mscclpp_step_t *step_p);

/*
 * Finds step `index` of a node in an exchange of `exchange_steps` steps between participants. `find_step` finds the
 * steps between participants. In a pair of nodes, there are steps within the pair before and after these.
 */
static bool find_step_of_role(const mscclpp_schedule_t *schedule, uint32_t node, const role_t *role, uint64_t index,
                              uint64_t exchange_steps, find_exchange_step_t *find_step, mscclpp_step_t *step_p)
{
    const uint64_t exchange_index = index - (role->is_paired ? 1 : 0);

    if (role->gives) {
        return find_giving_step(schedule, node, index, step_p);
    }
    if (role->is_paired && find_taking_step(schedule, node, index, exchange_steps, step_p)) {
        return true;
    }
    if (exchange_index >= exchange_steps) {
        return false;
    }
    find_step(role, exchange_index, step_p);
    return true;
}

/* Finds step `index` of doubling between participants, in which all messages have the only block. */
static void find_doubling_exchange_step(const role_t *role, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t exchange_round = (uint32_t)(index / 2), partner = role->number ^ (1u << exchange_round);
    const uint32_t round = exchange_round + (role->pairs > 0 ? 1 : 0);
    mscclpp_step_kind_t kind = partner < role->number ? MSCCLPP_STEP_BEFORE : MSCCLPP_STEP_AFTER;

    if (index % 2 == 0) {
        kind = MSCCLPP_STEP_SEND;
    }
    (void)mscclpp_step_set(step_p, kind, find_participant(role, partner), 0, 1);
    (void)mscclpp_step_set_slot(step_p, round, round);
}

/*
 * In round i, two participants at the distance 2^i exchange all data that they have and combine it, with the operand of
 * the lower participant first. A node that is not a participant sends its operand to its partner before the first
 * round.
 */
bool mscclpp_find_doubling_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                mscclpp_step_t *step_p)
{
    const role_t role = find_role(schedule->nodes, node);

    return find_step_of_role(schedule, node, &role, index, 2 * (uint64_t)mscclpp_log2(role.power),
                             find_doubling_exchange_step, step_p);
}

/*
 * Returns the first block that participant `number` still keeps after `rounds` rounds of halving. In round i, it keeps
 * the lower half of its blocks if bit i of its number is 0, and otherwise the upper half.
 */
static uint32_t find_first_kept_block(const role_t *role, uint32_t number, uint32_t rounds)
{
    uint32_t first = 0, i;

    for (i = 0; i < rounds; ++i) {
        first += (number >> i & 1) * (role->power >> (i + 1));
    }
    return first;
}

/*
 * Finds step `index` of an all-reduce by halving between participants. Operands arrive behind the node's own blocks,
 * larger messages first. Results arrive in their final place.
 */
static void find_halving_exchange_step(const role_t *role, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t log2_power = mscclpp_log2(role->power), exchange_round = (uint32_t)(index / 2);
    const bool sends = index % 2 == 0, is_halving = exchange_round < log2_power;
    const uint32_t distance_bit = is_halving ? exchange_round : 2 * log2_power - 1 - exchange_round;
    const uint32_t partner = role->number ^ (1u << distance_bit), blocks = role->power >> (distance_bit + 1);
    const uint32_t own_first = find_first_kept_block(role, role->number, distance_bit + 1);
    const uint32_t partner_first = find_first_kept_block(role, partner, distance_bit + 1);
    const uint32_t round = exchange_round + (role->pairs > 0 ? 1 : 0);
    mscclpp_step_kind_t kind = MSCCLPP_STEP_STORE;

    if (sends) {
        kind = MSCCLPP_STEP_SEND;
    } else if (is_halving) {
        kind = partner < role->number ? MSCCLPP_STEP_BEFORE : MSCCLPP_STEP_AFTER;
    }
    /* Halving sends the blocks that the partner keeps. On the way back, a participant sends the blocks that it kept. */
    (void)mscclpp_step_set(step_p, kind, find_participant(role, partner),
                           sends == is_halving ? partner_first : own_first, blocks);
    step_p->place = is_halving ? 2 * (role->power - blocks) : step_p->first;
    (void)mscclpp_step_set_slot(step_p, round, round);
}

/*
 * Finds step `index` of an all-reduce by halving (R. Rabenseifner, Optimization of Collective Reduction Operations,
 * ICCS 2004). In round i, two participants at the distance 2^i exchange and combine half of the blocks that they still
 * have. Then they return the results, with the distances in reverse order. So neighbours exchange the most data, and
 * blocks are combined along the same tree as in doubling.
 */
static bool find_step_of_allreduce(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                   mscclpp_step_t *step_p)
{
    const role_t role = find_role(schedule->nodes, node);

    return find_step_of_role(schedule, node, &role, index, 4 * (uint64_t)mscclpp_log2(role.power),
                             find_halving_exchange_step, step_p);
}

/* An all-gather and a reduce-scatter go in rounds with radix 2, for any number of nodes. */
bool mscclpp_find_halving_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                               mscclpp_step_t *step_p)
{
    return schedule->pattern == MSCCLPP_SCHEDULE_ALLREDUCE ? find_step_of_allreduce(schedule, node, index, step_p)
                                                           : mscclpp_find_rounds_step(schedule, node, index, step_p);
}

/*
 * A place in a k-nomial tree over numbers relative to the root. The parent of a number is the number with its lowest
 * digit other than 0, in base k, set to 0. So the subtree of a number has consecutive numbers, as many as the place
 * value of that digit.
 */
typedef struct {
    uint64_t
        place_value; /* place value of the lowest digit other than 0; for the root, the first one beyond all numbers */
    uint32_t parent;
    uint32_t slot; /* index of this number among all children that its parent may have */
} tree_position_t;

/*
 * Returns the place of a number in the k-nomial tree. Number 0 is its own parent. The children of a number differ from
 * it in one of its trailing zeros.
 */
static tree_position_t find_tree_position(uint32_t nodes, uint32_t radix, uint32_t number)
{
    tree_position_t position = {.place_value = 1};
    uint32_t remainder;

    while (position.place_value < nodes && number % (position.place_value * radix) == 0) {
        position.place_value *= radix;
        position.slot += radix - 1;
    }
    remainder = (uint32_t)(number % (position.place_value * radix));
    position.parent = number - remainder;
    position.slot += remainder > 0 ? (uint32_t)(remainder / position.place_value) - 1 : 0;
    return position;
}

/*
 * Finds child `index` of a number. Children with the largest subtrees come first, because their messages have the
 * longest way to go. Returns false if the number has no such child.
 */
static bool find_child(uint32_t nodes, uint32_t radix, uint32_t number, uint64_t index, uint32_t *child_p)
{
    uint64_t place_value = find_tree_position(nodes, radix, number).place_value;

    for (place_value /= radix; place_value > 0; place_value /= radix) {
        const uint64_t fitting = (nodes - 1 - number) / place_value,
                       children = fitting < radix - 1 ? fitting : radix - 1;

        if (index < children) {
            *child_p = number + (uint32_t)((index + 1) * place_value);
            return true;
        }
        index -= children;
    }
    return false;
}

/* Returns the number of children that find_child finds. */
static uint32_t count_children(uint32_t nodes, uint32_t radix, uint32_t number)
{
    uint64_t place_value = find_tree_position(nodes, radix, number).place_value;
    uint32_t count = 0;

    for (place_value /= radix; place_value > 0; place_value /= radix) {
        const uint64_t fitting = (nodes - 1 - number) / place_value;

        count += (uint32_t)(fitting < radix - 1 ? fitting : radix - 1);
    }
    return count;
}

/*
 * Finds step `index` of a node on the way down the tree. A node first receives from its parent, unless it is the root,
 * and then sends to its children. The first of its rounds is 2, because rounds 0 and 1 are on the way up. Messages
 * arrive in the last slot. Returns false if there is no such step.
 */
static bool find_step_down(const mscclpp_schedule_t *schedule, uint32_t number, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t nodes = schedule->nodes, root = schedule->root;
    const tree_position_t position = find_tree_position(nodes, schedule->radix, number);
    const uint32_t receptions = number != 0 ? 1 : 0;
    uint32_t child;

    if (index < receptions) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_STORE, (position.parent + root) % nodes, 0, 1) &&
               mscclpp_step_set_slot(step_p, 2, schedule->slots - 1);
    }
    return find_child(nodes, schedule->radix, number, index - receptions, &child) &&
           mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, (child + root) % nodes, 0, 1) &&
           mscclpp_step_set_slot(step_p, 2 + receptions, schedule->slots - 1);
}

/*
 * Finds step `index` of a node on the way up the tree. A node receives the messages of its `children` children, merges
 * them with its own block, and sends the result to its parent, unless it is the root. Small subtrees come first,
 * because their messages are complete first. Returns false if there is no such step.
 */
static bool find_step_up(const mscclpp_schedule_t *schedule, uint32_t number, uint64_t index, uint32_t children,
                         mscclpp_step_t *step_p)
{
    const uint32_t nodes = schedule->nodes, root = schedule->root;
    const tree_position_t position = find_tree_position(nodes, schedule->radix, number);
    const uint32_t merges = children > 0 ? 1 : 0;
    uint32_t child;

    if (index < children) {
        return find_child(nodes, schedule->radix, number, children - 1 - index, &child) &&
               mscclpp_step_set(step_p, MSCCLPP_STEP_KEEP, (child + root) % nodes, 0, 1) &&
               mscclpp_step_set_slot(step_p, 0, find_tree_position(nodes, schedule->radix, child).slot);
    }
    if (index == children && merges > 0) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_MERGE, (number + root) % nodes, 0, 1);
    }
    /* A leaf has no receptions to wait for, so it sends in round 0. */
    return number != 0 && index == (uint64_t)children + merges &&
           mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, (position.parent + root) % nodes, 0, 1) &&
           mscclpp_step_set_slot(step_p, merges, position.slot);
}

/* An all-reduce goes up the tree and down again. All other patterns use the steps of rounds. */
bool mscclpp_find_tree_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t nodes = schedule->nodes, number = (node + nodes - schedule->root) % nodes;
    uint32_t children;
    uint64_t steps_up;

    if (schedule->pattern != MSCCLPP_SCHEDULE_ALLREDUCE) {
        return mscclpp_find_rounds_step(schedule, node, index, step_p);
    }
    children = count_children(nodes, schedule->radix, number);
    /* The receptions from the children, a merge if there are any, and the message to the parent if there is one. */
    steps_up = (uint64_t)children + (children > 0 ? 1 : 0) + (number != 0 ? 1 : 0);
    return index < steps_up ? find_step_up(schedule, number, index, children, step_p)
                            : find_step_down(schedule, number, index - steps_up, step_p);
}
