/* What elements are made of, and the result that each collective must have. */
#include <stdio.h>
#include <string.h>

#include "mca/common/plan/sim.h"

/* Sums are modulo this prime, so that no number of additions makes a contribution vanish. */
static const uint64_t prime = ((uint64_t)1 << 61) - 1;

/* Maps a number to one that looks random. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

mscclpp_sim_value_t mscclpp_sim_input(const mscclpp_sim_t *sim, uint32_t rank, uint64_t position, uint32_t launch)
{
    uint64_t bits = mix(mix(sim->seed + launch) ^ position);

    if (sim->extremes) {
        return (mscclpp_sim_value_t){(uint64_t)1 << rank % 64, bits};
    }
    bits = mix(bits + ((uint64_t)rank << 32));
    return (mscclpp_sim_value_t){bits % prime, mix(bits)};
}

mscclpp_sim_value_t mscclpp_sim_combine(const mscclpp_sim_t *sim, mscclpp_sim_value_t x, mscclpp_sim_value_t y)
{
    if (sim->extremes) {
        return (mscclpp_sim_value_t){x.a | y.a, x.b == y.b ? x.b : mix(x.b ^ y.b)};
    }
    return (mscclpp_sim_value_t){(x.a + y.a) % prime, x.b + y.b};
}

bool mscclpp_sim_has_result(const mscclpp_plan_t *plan)
{
    return plan->collective != MSCCLPP_PLAN_TEST && plan->collective != MSCCLPP_PLAN_CUSTOM;
}

void mscclpp_sim_shape(const mscclpp_plan_t *plan, uint32_t rank, uint64_t *in_p, uint64_t *out_p)
{
    uint64_t in = plan->ranks[rank].chunks[MSCCLPP_PLAN_INPUT], out = plan->ranks[rank].chunks[MSCCLPP_PLAN_OUTPUT];
    uint64_t n = plan->rank_count;

    *in_p = in;
    *out_p = out;
    if (!mscclpp_sim_has_result(plan)) {
        return;
    }
    for (uint32_t r = 0; r < plan->rank_count; ++r) {
        in = plan->ranks[r].chunks[MSCCLPP_PLAN_INPUT] > in ? plan->ranks[r].chunks[MSCCLPP_PLAN_INPUT] : in;
        out = plan->ranks[r].chunks[MSCCLPP_PLAN_OUTPUT] > out ? plan->ranks[r].chunks[MSCCLPP_PLAN_OUTPUT] : out;
    }
    switch (plan->collective) {
    case MSCCLPP_PLAN_ALLGATHER:
        *in_p = in > 0 ? in : out / n;
        *out_p = out > 0 ? out : in * n;
        break;
    case MSCCLPP_PLAN_REDUCESCATTER:
        *in_p = in > 0 ? in : out * n;
        *out_p = out > 0 ? out : in / n;
        break;
    default:
        *in_p = in > 0 ? in : out;
        *out_p = out > 0 ? out : in;
        break;
    }
}

/* The combination of all ranks' inputs at a position. */
static mscclpp_sim_value_t over_all_ranks(const mscclpp_sim_t *sim, uint64_t position, uint32_t launch)
{
    mscclpp_sim_value_t value = mscclpp_sim_input(sim, 0, position, launch);

    for (uint32_t r = 1; r < sim->plan->rank_count; ++r) {
        value = mscclpp_sim_combine(sim, value, mscclpp_sim_input(sim, r, position, launch));
    }
    return value;
}

bool mscclpp_sim_expect(const mscclpp_sim_t *sim, uint32_t rank, uint64_t position, uint32_t launch,
                        mscclpp_sim_value_t *value_p)
{
    uint64_t in = 0, out = 0, n = sim->plan->rank_count, part;

    mscclpp_sim_shape(sim->plan, rank, &in, &out);
    in *= sim->chunk;
    out *= sim->chunk;
    switch (sim->plan->collective) {
    case MSCCLPP_PLAN_ALLREDUCE:
        *value_p = over_all_ranks(sim, position, launch);
        return true;
    case MSCCLPP_PLAN_ALLGATHER:
        *value_p = mscclpp_sim_input(sim, (uint32_t)(position / in), position % in, launch);
        return true;
    case MSCCLPP_PLAN_REDUCESCATTER:
        *value_p = over_all_ranks(sim, rank * out + position, launch);
        return true;
    case MSCCLPP_PLAN_ALLTOALL:
        part = in / n;
        *value_p = mscclpp_sim_input(sim, (uint32_t)(position / part), rank * part + position % part, launch);
        return true;
    case MSCCLPP_PLAN_SENDRECV:
        *value_p = mscclpp_sim_input(sim, (uint32_t)((rank + n - 1) % n), position, launch);
        return true;
    default:
        return false;
    }
}

/* Tells whether two values are equal. */
static bool same_value(mscclpp_sim_value_t x, mscclpp_sim_value_t y)
{
    return x.a == y.a && x.b == y.b;
}

/* Tells whether the value is a single input, of any rank, place and launch. */
static bool is_one_input(const mscclpp_sim_t *sim, mscclpp_sim_value_t value, uint32_t launch, char *text, size_t size)
{
    for (uint32_t l = launch + 1; l > 0; --l) {
        for (uint32_t r = 0; r < sim->plan->rank_count; ++r) {
            uint64_t in = 0, out = 0;

            mscclpp_sim_shape(sim->plan, r, &in, &out);
            for (uint64_t p = 0; p < in * sim->chunk; ++p) {
                if (same_value(value, mscclpp_sim_input(sim, r, p, l))) {
                    snprintf(text, size, "it is chunk %llu of the input of rank %u%s",
                             (unsigned long long)(p / sim->chunk), r,
                             l == launch  ? ""
                             : l < launch ? " of an earlier launch"
                                          : " of the next launch");
                    return true;
                }
            }
        }
    }
    return false;
}

/* Sums of which one rank is left out, or counted twice. */
static bool is_nearly_all(const mscclpp_sim_t *sim, mscclpp_sim_value_t value, uint64_t position, uint32_t launch,
                          char *text, size_t size)
{
    mscclpp_sim_value_t all = over_all_ranks(sim, position, launch);

    for (uint32_t r = 0; !sim->extremes && r < sim->plan->rank_count; ++r) {
        mscclpp_sim_value_t one = mscclpp_sim_input(sim, r, position, launch);

        if (same_value(all, mscclpp_sim_combine(sim, value, one))) {
            snprintf(text, size, "the part of rank %u is missing", r);
            return true;
        }
        if (same_value(value, mscclpp_sim_combine(sim, all, one))) {
            snprintf(text, size, "the part of rank %u is in it twice", r);
            return true;
        }
    }
    return false;
}

void mscclpp_sim_describe(const mscclpp_sim_t *sim, mscclpp_sim_value_t value, uint64_t position, uint32_t launch,
                          char *text, size_t size)
{
    uint64_t set = 0;
    uint32_t most = sim->plan->rank_count < 16 ? sim->plan->rank_count : 16;

    if (is_one_input(sim, value, launch, text, size) || is_nearly_all(sim, value, position, launch, text, size)) {
        return;
    }
    for (set = 1; !sim->extremes && sim->plan->rank_count <= most && set < (uint64_t)1 << most; ++set) {
        mscclpp_sim_value_t sum = {0, 0};
        int used = 0;

        for (uint32_t r = 0; r < most; ++r) {
            if (set >> r & 1) {
                sum = mscclpp_sim_combine(sim, sum, mscclpp_sim_input(sim, r, position, launch));
            }
        }
        if (!same_value(sum, value)) {
            continue;
        }
        used = snprintf(text, size, "it has the parts of ranks");
        for (uint32_t r = 0; r < most && (size_t)used < size; ++r) {
            if (set >> r & 1) {
                used += snprintf(text + used, size - (size_t)used, " %u", r);
            }
        }
        return;
    }
    snprintf(text, size, "it is made of parts that do not belong together");
}
