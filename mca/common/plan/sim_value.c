/* Makes the values of elements, and the result that each collective must have. */
#include <stdio.h>
#include <string.h>

#include "mca/common/plan/sim.h"

/* The first number of a sum is modulo this prime, so that no number of additions makes a contribution vanish. */
static const uint64_t prime = ((uint64_t)1 << 61) - 1;

/*
 * Returns a hash of the bits. The result looks random but depends on `bits` alone, so that the expected value can be
 * computed again.
 */
static uint64_t hash_bits(uint64_t bits)
{
    bits += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

mscclpp_sim_value_t mscclpp_sim_input_value(const mscclpp_sim_t *sim, uint32_t rank, uint64_t position, uint32_t launch)
{
    uint64_t bits = hash_bits(hash_bits(sim->seed + launch) ^ position);

    if (sim->has_min_or_max) {
        /* One bit for each of 64 ranks. Runs with other values of first_rank check the parts of the others. */
        return (mscclpp_sim_value_t){
            rank - sim->first_rank < MSCCLPP_SIM_TOLD_APART ? (uint64_t)1 << (rank - sim->first_rank) : 0, bits};
    }
    bits = hash_bits(bits + ((uint64_t)rank << 32));
    return (mscclpp_sim_value_t){bits % prime, hash_bits(bits)};
}

mscclpp_sim_value_t mscclpp_sim_combine(const mscclpp_sim_t *sim, mscclpp_sim_value_t left, mscclpp_sim_value_t right)
{
    if (sim->has_min_or_max) {
        return (mscclpp_sim_value_t){left.first | right.first,
                                     left.second == right.second ? left.second : hash_bits(left.second ^ right.second)};
    }
    return (mscclpp_sim_value_t){(left.first + right.first) % prime, left.second + right.second};
}

bool mscclpp_sim_has_result(const mscclpp_plan_t *plan)
{
    return plan->collective != MSCCLPP_PLAN_TEST && plan->collective != MSCCLPP_PLAN_CUSTOM;
}

/*
 * For tests and custom plans, takes the rank's own numbers. Otherwise takes the largest number of any rank, because a
 * rank that does not use a buffer has no chunks of it. If no rank uses a buffer, takes the number that the collective
 * requires.
 */
void mscclpp_sim_get_shape(const mscclpp_plan_t *plan, uint32_t rank, uint64_t *in_p, uint64_t *out_p)
{
    uint64_t in_chunks = plan->ranks[rank].chunks[MSCCLPP_PLAN_INPUT],
             out_chunks = plan->ranks[rank].chunks[MSCCLPP_PLAN_OUTPUT];
    uint64_t ranks = plan->rank_count;

    *in_p = in_chunks;
    *out_p = out_chunks;
    if (!mscclpp_sim_has_result(plan)) {
        return;
    }
    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        in_chunks = plan->ranks[rank_number].chunks[MSCCLPP_PLAN_INPUT] > in_chunks
                        ? plan->ranks[rank_number].chunks[MSCCLPP_PLAN_INPUT]
                        : in_chunks;
        out_chunks = plan->ranks[rank_number].chunks[MSCCLPP_PLAN_OUTPUT] > out_chunks
                         ? plan->ranks[rank_number].chunks[MSCCLPP_PLAN_OUTPUT]
                         : out_chunks;
    }
    switch (plan->collective) {
    case MSCCLPP_PLAN_ALLGATHER:
        *in_p = in_chunks > 0 ? in_chunks : out_chunks / ranks;
        *out_p = out_chunks > 0 ? out_chunks : in_chunks * ranks;
        break;
    case MSCCLPP_PLAN_REDUCESCATTER:
        *in_p = in_chunks > 0 ? in_chunks : out_chunks * ranks;
        *out_p = out_chunks > 0 ? out_chunks : in_chunks / ranks;
        break;
    default:
        *in_p = in_chunks > 0 ? in_chunks : out_chunks;
        *out_p = out_chunks > 0 ? out_chunks : in_chunks;
        break;
    }
}

/* Returns the combination of the inputs of all ranks at a position. */
static mscclpp_sim_value_t combine_all_ranks(const mscclpp_sim_t *sim, uint64_t position, uint32_t launch)
{
    mscclpp_sim_value_t value = mscclpp_sim_input_value(sim, 0, position, launch);

    for (uint32_t rank_number = 1; rank_number < sim->plan->rank_count; ++rank_number) {
        value = mscclpp_sim_combine(sim, value, mscclpp_sim_input_value(sim, rank_number, position, launch));
    }
    return value;
}

/* In send-receive, each rank sends its input to the next rank. */
bool mscclpp_sim_expected_value(const mscclpp_sim_t *sim, uint32_t rank, uint64_t position, uint32_t launch,
                                mscclpp_sim_value_t *value_p)
{
    uint64_t in_size = 0, out_size = 0, ranks = sim->plan->rank_count, part_size;

    mscclpp_sim_get_shape(sim->plan, rank, &in_size, &out_size);
    in_size *= sim->cells_per_chunk;
    out_size *= sim->cells_per_chunk;
    /*
     * No divisor is 0, because the position is in the output, and mscclpp_plan_check has checked that the numbers of
     * chunks fit.
     */
    switch (sim->plan->collective) {
    case MSCCLPP_PLAN_ALLREDUCE:
        *value_p = combine_all_ranks(sim, position, launch);
        return true;
    case MSCCLPP_PLAN_ALLGATHER:
        *value_p = mscclpp_sim_input_value(sim, (uint32_t)(position / in_size), position % in_size, launch);
        return true;
    case MSCCLPP_PLAN_REDUCESCATTER:
        *value_p = combine_all_ranks(sim, rank * out_size + position, launch);
        return true;
    case MSCCLPP_PLAN_ALLTOALL:
        part_size = in_size / ranks;
        *value_p = mscclpp_sim_input_value(sim, (uint32_t)(position / part_size),
                                           rank * part_size + position % part_size, launch);
        return true;
    case MSCCLPP_PLAN_SENDRECV:
        *value_p = mscclpp_sim_input_value(sim, (uint32_t)((rank + ranks - 1) % ranks), position, launch);
        return true;
    case MSCCLPP_PLAN_TEST:
    case MSCCLPP_PLAN_CUSTOM:
    case MSCCLPP_PLAN_COLLECTIVES:
        break;
    }
    return false;
}

/* Returns true if both numbers of the two values are equal. */
static bool is_same_value(mscclpp_sim_value_t left, mscclpp_sim_value_t right)
{
    return left.first == right.first && left.second == right.second;
}

/* Returns words that say which launch an input is of, as seen from `launch`. */
static const char *relate_launch(uint32_t other_launch, uint32_t launch)
{
    if (other_launch == launch) {
        return "";
    }
    return other_launch < launch ? " of an earlier launch" : " of the next launch";
}

/*
 * Describes a value that is a single input of the wrong place. Tries the inputs of all ranks, positions and launches,
 * the next one included, for which the application may already have written inputs. Later launches are tried first.
 * Returns false if the value is not a single input.
 */
static bool describe_one_input(const mscclpp_sim_t *sim, mscclpp_sim_value_t value, uint32_t launch, char *text,
                               size_t size)
{
    for (uint32_t other_launch = launch + 1; other_launch > 0; --other_launch) {
        for (uint32_t rank_number = 0; rank_number < sim->plan->rank_count; ++rank_number) {
            uint64_t in_chunks = 0, out_chunks = 0;

            mscclpp_sim_get_shape(sim->plan, rank_number, &in_chunks, &out_chunks);
            for (uint64_t element = 0; element < in_chunks * sim->cells_per_chunk; ++element) {
                if (is_same_value(value, mscclpp_sim_input_value(sim, rank_number, element, other_launch))) {
                    snprintf(text, size, "it is chunk %llu of the input of rank %u%s",
                             (unsigned long long)(element / sim->cells_per_chunk), rank_number,
                             relate_launch(other_launch, launch));
                    return true;
                }
            }
        }
    }
    return false;
}

/*
 * Describes a sum in which the part of one rank is missing or is there twice. Returns false if the value is not such a
 * sum. Always returns false for min and max, because repetitions do not change their result.
 */
static bool describe_nearly_all(const mscclpp_sim_t *sim, mscclpp_sim_value_t value, uint64_t position, uint32_t launch,
                                char *text, size_t size)
{
    mscclpp_sim_value_t sum_of_all = combine_all_ranks(sim, position, launch);

    for (uint32_t rank_number = 0; !sim->has_min_or_max && rank_number < sim->plan->rank_count; ++rank_number) {
        mscclpp_sim_value_t input = mscclpp_sim_input_value(sim, rank_number, position, launch);

        if (is_same_value(sum_of_all, mscclpp_sim_combine(sim, value, input))) {
            snprintf(text, size, "the part of rank %u is missing", rank_number);
            return true;
        }
        if (is_same_value(value, mscclpp_sim_combine(sim, sum_of_all, input))) {
            snprintf(text, size, "the part of rank %u is in it twice", rank_number);
            return true;
        }
    }
    return false;
}

/*
 * Describes a value that is the sum of some ranks' parts. Returns false if the value is not such a sum, if the plan
 * combines by min or max, or if there are more than MAX_RANKS ranks.
 */
static bool describe_some_ranks(const mscclpp_sim_t *sim, mscclpp_sim_value_t value, uint64_t position, uint32_t launch,
                                char *text, size_t size)
{
    enum { MAX_RANKS = 16 }; /* up to this number of ranks, the sums of all 65536 sets of ranks are tried */
    const uint32_t ranks = sim->plan->rank_count;
    int used;

    if (sim->has_min_or_max || ranks > MAX_RANKS) {
        return false;
    }
    for (uint64_t set = 1; set < (uint64_t)1 << ranks; ++set) {
        mscclpp_sim_value_t sum = {0, 0};

        for (uint32_t rank_number = 0; rank_number < ranks; ++rank_number) {
            if (set >> rank_number & 1) {
                sum = mscclpp_sim_combine(sim, sum, mscclpp_sim_input_value(sim, rank_number, position, launch));
            }
        }
        if (!is_same_value(sum, value)) {
            continue;
        }
        used = snprintf(text, size, "it has the parts of ranks");
        for (uint32_t rank_number = 0; rank_number < ranks && (size_t)used < size; ++rank_number) {
            if (set >> rank_number & 1) {
                used += snprintf(text + used, size - (size_t)used, " %u", rank_number);
            }
        }
        return true;
    }
    return false;
}

/* Tries the explanations from the simplest to the most elaborate. */
void mscclpp_sim_describe_value(const mscclpp_sim_t *sim, mscclpp_sim_value_t value, uint64_t position, uint32_t launch,
                                char *text, size_t size)
{
    if (!describe_one_input(sim, value, launch, text, size) &&
        !describe_nearly_all(sim, value, position, launch, text, size) &&
        !describe_some_ranks(sim, value, position, launch, text, size)) {
        snprintf(text, size, "it is made of parts that do not belong together");
    }
}
