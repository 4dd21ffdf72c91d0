/*
 * The kinds of schedules, for mca/common/algo/schedule only. Each kind has one function, which does what
 * mscclpp_schedule_find_step describes. The other functions help these.
 */
#ifndef MCA_COMMON_ALGO_SCHEDULE_KINDS_H
#define MCA_COMMON_ALGO_SCHEDULE_KINDS_H

#include "mca/common/algo/schedule/schedule.h"

typedef bool mscclpp_find_step_t(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                 mscclpp_step_t *step_p);

mscclpp_find_step_t mscclpp_find_direct_step;
mscclpp_find_step_t mscclpp_find_split_step;
mscclpp_find_step_t mscclpp_find_ring_step;
mscclpp_find_step_t mscclpp_find_doubling_step;
mscclpp_find_step_t mscclpp_find_halving_step;
mscclpp_find_step_t mscclpp_find_tree_step;
mscclpp_find_step_t mscclpp_find_rounds_step;
mscclpp_find_step_t mscclpp_find_trees_step;

/* Fills in a step of round 0 whose message arrives in slot 0. Always returns true, so that callers can return it. */
static inline bool mscclpp_step_set(mscclpp_step_t *step_p, mscclpp_step_kind_t kind, uint32_t peer, uint32_t first,
                                    uint32_t count)
{
    *step_p = (mscclpp_step_t){.kind = kind, .peer = peer, .first = first, .count = count};
    return true;
}

/* Moves a step to a round and a slot. Always returns true, so that callers can return it. */
static inline bool mscclpp_step_set_slot(mscclpp_step_t *step_p, uint32_t round, uint32_t slot)
{
    step_p->round = round;
    step_p->slot = slot;
    return true;
}

/* Returns the largest power of two that is not larger than `number`, which is not 0. */
static inline uint32_t mscclpp_round_down_to_power_of_two(uint32_t number)
{
    return 1u << (31 - __builtin_clz(number));
}

/* Returns the binary logarithm of `number`, rounded down. `number` is not 0. */
static inline uint32_t mscclpp_log2(uint32_t number)
{
    return 31 - (uint32_t)__builtin_clz(number);
}

/* Returns the number of digits, in base `radix`, that the numbers below `nodes` have. */
static inline uint32_t mscclpp_count_digits(uint32_t nodes, uint32_t radix)
{
    uint32_t digits = 0;
    uint64_t place_value;

    for (place_value = 1; place_value < nodes; place_value *= radix) {
        ++digits;
    }
    return digits;
}

#endif
