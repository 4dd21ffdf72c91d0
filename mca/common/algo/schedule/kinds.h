/* The kinds of schedules: one function each, with the meaning of mscclpp_schedule_step. */
#ifndef MCA_COMMON_ALGO_SCHEDULE_KINDS_H
#define MCA_COMMON_ALGO_SCHEDULE_KINDS_H

#include "mca/common/algo/schedule/schedule.h"

typedef bool mscclpp_schedule_step_t(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                     mscclpp_step_t *step_p);

mscclpp_schedule_step_t mscclpp_schedule_direct;
mscclpp_schedule_step_t mscclpp_schedule_split;
mscclpp_schedule_step_t mscclpp_schedule_ring;
mscclpp_schedule_step_t mscclpp_schedule_doubling;
mscclpp_schedule_step_t mscclpp_schedule_halving;
mscclpp_schedule_step_t mscclpp_schedule_tree;
mscclpp_schedule_step_t mscclpp_schedule_rounds;

/* Fills in a step of round 0 whose message takes slot 0. */
static inline bool mscclpp_step_set(mscclpp_step_t *step, mscclpp_step_kind_t kind, uint32_t peer, uint32_t first,
                                    uint32_t count)
{
    *step = (mscclpp_step_t){.kind = kind, .peer = peer, .first = first, .count = count};
    return true;
}

/* Changes the round and the slot of a step if `any`, which is also the result. */
static inline bool mscclpp_step_at(mscclpp_step_t *step, uint32_t round, uint32_t slot, bool any)
{
    if (any) {
        step->round = round;
        step->slot = slot;
    }
    return any;
}

/* The largest power of two that is not larger than `number`, which is not 0. */
static inline uint32_t mscclpp_power_of_two(uint32_t number)
{
    return 1u << (31 - __builtin_clz(number));
}

/* The logarithm to base 2 of that power. */
static inline uint32_t mscclpp_log2(uint32_t number)
{
    return 31 - (uint32_t)__builtin_clz(number);
}

/* The number of digits, in base `radix`, of the numbers below `nodes`. */
static inline uint32_t mscclpp_digits(uint32_t nodes, uint32_t radix)
{
    uint32_t digits = 0;
    uint64_t place_value;

    for (place_value = 1; place_value < nodes; place_value *= radix) {
        ++digits;
    }
    return digits;
}

#endif
