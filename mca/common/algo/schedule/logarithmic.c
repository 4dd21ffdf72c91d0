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

/* A node's role in an exchange of `power` participants, of which the first `pairs` are pairs of nodes. */
typedef struct {
    uint32_t power;
    uint32_t pairs;
    uint32_t number; /* number of the participant that this node is, or that takes part for it */
    bool is_paired;  /* this node is one of a pair */
    bool gives;      /* this node gives its data to the other node of its pair, and does not take part itself */
} role_t;

/* Returns the role of a node in an exchange of the largest power of two of participants. */
static role_t role_of(uint32_t nodes, uint32_t node)
{
    role_t role = {.power = mscclpp_power_of_two(nodes)};

    role.pairs = nodes - role.power;
    role.is_paired = node < 2 * role.pairs;
    role.gives = role.is_paired && node % 2 == 1;
    role.number = role.is_paired ? node / 2 : node - role.pairs;
    return role;
}

/* Returns the node that is participant `number`: the even one of a pair, which takes part for both. */
static uint32_t node_of(const role_t *role, uint32_t number)
{
    return number < role->pairs ? 2 * number : number + role->pairs;
}

/*
 * Finds step `index` of a node if it is a step within a pair of nodes. These steps come before and after the
 * `exchange_steps` steps of the exchange: first, one node of the pair gives its data to the other, and at the end it
 * receives the result.
 *
 * Returns true if step `index` is not a step of the exchange. Then *exists_p tells whether the list has such a step,
 * and *step_p is the step if it has. Otherwise returns false, and sets *exchange_index_p to the index of the step
 * within the exchange.
 */
static bool find_pair_step(const mscclpp_schedule_t *schedule, uint32_t node, const role_t *role, uint64_t index,
                           uint64_t exchange_steps, uint64_t *exchange_index_p, mscclpp_step_t *step_p, bool *exists_p)
{
    const uint32_t last = schedule->rounds - 1;

    *exchange_index_p = index;
    *exists_p = true;
    if (role->gives) {
        *exists_p = index < 2 && mscclpp_step_set(step_p, index == 0 ? MSCCLPP_STEP_SEND : MSCCLPP_STEP_STORE, node - 1,
                                                  0, schedule->blocks);
        (void)mscclpp_step_set_slot(step_p, index == 0 ? 0 : last, index == 0 ? 0 : last, *exists_p);
        step_p->place = index == 0 ? 2 * schedule->blocks : 0; /* behind all else that the partner receives */
        return true;
    }
    if (role->is_paired && index == 0) {
        (void)mscclpp_step_set(step_p, MSCCLPP_STEP_AFTER, node + 1, 0, schedule->blocks);
        step_p->place = 2 * schedule->blocks;
        return true;
    }
    *exchange_index_p = index - (role->is_paired ? 1 : 0);
    if (role->is_paired && *exchange_index_p == exchange_steps) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, node + 1, 0, schedule->blocks) &&
               mscclpp_step_set_slot(step_p, last, last, true);
    }
    *exists_p = false;
    return *exchange_index_p >= exchange_steps;
}

/*
 * In round i, two participants at the distance 2^i exchange all data that they have and combine it, with the operand of
 * the lower participant first. A node that is not a participant sends its operand to its partner before the first
 * round.
 */
bool mscclpp_schedule_doubling(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                               mscclpp_step_t *step_p)
{
    const role_t role = role_of(schedule->nodes, node);
    uint32_t partner, round;
    uint64_t exchange_index;
    bool exists;

    if (find_pair_step(schedule, node, &role, index, 2 * (uint64_t)mscclpp_log2(role.power), &exchange_index, step_p,
                       &exists)) {
        return exists;
    }
    partner = role.number ^ (1u << (exchange_index / 2));
    (void)mscclpp_step_set(step_p,
                           exchange_index % 2 == 0 ? MSCCLPP_STEP_SEND
                           : partner < role.number ? MSCCLPP_STEP_BEFORE
                                                   : MSCCLPP_STEP_AFTER,
                           node_of(&role, partner), 0, schedule->blocks);
    round = (uint32_t)(exchange_index / 2) + (role.pairs > 0 ? 1 : 0);
    return mscclpp_step_set_slot(step_p, round, round, true);
}

/*
 * Returns the first block that participant `number` still keeps after `steps` steps of halving. In step i, it keeps the
 * lower half of its blocks if bit i of its number is 0, else the upper one.
 */
static uint32_t first_kept_block(const role_t *role, uint32_t number, uint32_t steps)
{
    uint32_t first = 0, i;

    for (i = 0; i < steps; ++i) {
        first += (number >> i & 1) * (role->power >> (i + 1));
    }
    return first;
}

/*
 * Finds step `index` of an all-reduce by halving (R. Rabenseifner, Optimization of Collective Reduction Operations,
 * ICCS 2004). In step i, two participants at the distance 2^i exchange and combine half of the blocks that they still
 * have. Then they return the results, with the distances in reverse order. So neighbours exchange the most data, and
 * blocks are combined along the same tree as in doubling.
 *
 * Operands arrive behind the node's own blocks, larger messages first. The operand of a node that is not a participant
 * arrives behind all of these. Results arrive in their final place.
 */
static bool find_step_of_allreduce(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                   mscclpp_step_t *step_p)
{
    const role_t role = role_of(schedule->nodes, node);
    const uint32_t log2 = mscclpp_log2(role.power);
    uint32_t round, step, count, partner, own_first, partner_first;
    uint64_t exchange_index;
    bool exists, sends, is_halving;

    if (find_pair_step(schedule, node, &role, index, 4 * (uint64_t)log2, &exchange_index, step_p, &exists)) {
        return exists;
    }
    sends = exchange_index % 2 == 0;
    round = (uint32_t)(exchange_index / 2);
    is_halving = round < log2;
    step = is_halving ? round : 2 * log2 - 1 - round;
    count = role.power >> (step + 1);
    partner = role.number ^ (1u << step);
    own_first = first_kept_block(&role, role.number, step + 1);
    partner_first = first_kept_block(&role, partner, step + 1);
    (void)mscclpp_step_set(step_p,
                           sends                   ? MSCCLPP_STEP_SEND
                           : !is_halving           ? MSCCLPP_STEP_STORE
                           : partner < role.number ? MSCCLPP_STEP_BEFORE
                                                   : MSCCLPP_STEP_AFTER,
                           node_of(&role, partner), sends == is_halving ? partner_first : own_first, count);
    step_p->place = is_halving ? 2 * (role.power - count) : step_p->first;
    round += role.pairs > 0 ? 1 : 0;
    return mscclpp_step_set_slot(step_p, round, round, true);
}

/* An all-gather and a reduce-scatter go in rounds with radix 2, for any number of nodes. */
bool mscclpp_schedule_halving(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    return schedule->pattern == MSCCLPP_SCHEDULE_ALLREDUCE ? find_step_of_allreduce(schedule, node, index, step_p)
                                                           : mscclpp_schedule_rounds(schedule, node, index, step_p);
}

/*
 * A k-nomial tree over numbers relative to the root. The parent of a number has the number's lowest digit other than 0,
 * in base k, set to 0. So the subtree of a child is a run of consecutive numbers, as many as the place value of that
 * digit.
 */
typedef struct {
    uint64_t place_value; /* of the lowest digit other than 0; for the root, the first one beyond all numbers */
    uint32_t parent;
    uint32_t slot; /* index of this number among the children that its parent may have */
} tree_position_t;

/*
 * Returns the place of a number in the k-nomial tree. Number 0 is its own parent. The children of a number differ from
 * it in one of its trailing zeros.
 */
static tree_position_t tree_position_of(uint32_t nodes, uint32_t radix, uint32_t number)
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
    uint64_t place_value = tree_position_of(nodes, radix, number).place_value;

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
    uint64_t place_value = tree_position_of(nodes, radix, number).place_value;
    uint32_t count = 0;

    for (place_value /= radix; place_value > 0; place_value /= radix) {
        const uint64_t fitting = (nodes - 1 - number) / place_value;

        count += (uint32_t)(fitting < radix - 1 ? fitting : radix - 1);
    }
    return count;
}

/*
 * Finds step `index` of a node on the way down the tree. A node first receives from its parent, unless it is the root,
 * and then sends to its children. Rounds 0 and 1 are on the way up. The message that a node receives uses the last
 * slot. Returns false if there is no such step.
 */
static bool find_step_down(const mscclpp_schedule_t *schedule, uint32_t number, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t nodes = schedule->nodes, root = schedule->root;
    const tree_position_t position = tree_position_of(nodes, schedule->radix, number);
    uint32_t child;

    if (number != 0 && index == 0) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_STORE, (position.parent + root) % nodes, 0, 1) &&
               mscclpp_step_set_slot(step_p, 2, schedule->slots - 1, true);
    }
    return find_child(nodes, schedule->radix, number, index - (number != 0), &child) &&
           mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, (child + root) % nodes, 0, 1) &&
           mscclpp_step_set_slot(step_p, 2 + (number != 0), schedule->slots - 1, true);
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
    const tree_position_t position = tree_position_of(nodes, schedule->radix, number);
    uint32_t child;

    if (index < children) {
        return find_child(nodes, schedule->radix, number, children - 1 - index, &child) &&
               mscclpp_step_set(step_p, MSCCLPP_STEP_KEEP, (child + root) % nodes, 0, 1) &&
               mscclpp_step_set_slot(step_p, 0, tree_position_of(nodes, schedule->radix, child).slot, true);
    }
    if (children > 0 && index == children) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_MERGE, (number + root) % nodes, 0, 1);
    }
    return number != 0 && index == children + (uint64_t)(children > 0) &&
           mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, (position.parent + root) % nodes, 0, 1) &&
           mscclpp_step_set_slot(step_p, children > 0, position.slot, true);
}

/* An all-reduce goes up the tree and down again. All other patterns use the steps of rounds. */
bool mscclpp_schedule_tree(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t nodes = schedule->nodes, number = (node + nodes - schedule->root) % nodes;
    uint32_t children;
    uint64_t steps_up;

    if (schedule->pattern != MSCCLPP_SCHEDULE_ALLREDUCE) {
        return mscclpp_schedule_rounds(schedule, node, index, step_p);
    }
    children = count_children(nodes, schedule->radix, number);
    steps_up = children + (uint64_t)(children > 0) + (number != 0);
    return index < steps_up ? find_step_up(schedule, number, index, children, step_p)
                            : find_step_down(schedule, number, index - steps_up, step_p);
}
