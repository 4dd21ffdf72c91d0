#include "mca/common/algo/select.h"

#include "mca/common/algo/allreduce/between.h"
#include "mca/common/algo/allreduce/thresholds.h"
#include "mca/common/algo/rule_match.h"

/*
 * Returns true if the call may map the peers' buffers. The hosts do not wait for one another in an early call. So its
 * buffers must be mapped already, or the hosts may exchange them.
 */
static bool may_map(const mscclpp_select_input_t *input)
{
    return input->protocol->zerocopy != 0 && (!input->is_early || input->has_mapped || input->may_exchange);
}

/*
 * Returns the algorithm that the rules name for the call; NULL: they name none. A rule that names a plan counts as
 * none, because a call gets here only if that plan does not serve it.
 */
static const mscclpp_algo_t *match_rules(const mscclpp_select_input_t *input)
{
    int64_t algorithm;

    if (!mscclpp_rule_match(input->protocol, MSCCLPP_COLL_LAST, input->bytes, input->in_place, input->nodes,
                            &algorithm) ||
        algorithm >= MSCCLPP_RULE_PLANS) {
        return NULL;
    }
    return mscclpp_algos[algorithm];
}

/*
 * Returns the algorithm that the rules name for a call on one node; NULL: they name none. The rules are ignored if a
 * parameter sets one of the sizes, because such a parameter is meant for the whole built-in table.
 *
 * The algorithm's fallback replaces it if it maps buffers and this call may not. Each chain of fallbacks ends with an
 * algorithm that maps none, so the loop ends before a NULL.
 */
static const mscclpp_algo_t *find_by_rules(const mscclpp_select_input_t *input)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const mscclpp_algo_t *algo;

    if (protocol->oneshot_max != 0 || protocol->twophase_max != 0 || protocol->put_max != 0 ||
        protocol->engine_min != 0) {
        return NULL;
    }
    algo = match_rules(input);
    while (algo != NULL && algo->maps_buffers && !may_map(input)) {
        algo = algo->fallback;
    }
    return algo;
}

mscclpp_status_t mscclpp_select_shape(const mscclpp_select_input_t *input, const mscclpp_algo_t *algo,
                                      mscclpp_choice_t *choice_p)
{
    mscclpp_choice_t choice;

    choice.algo = algo;
    if (!algo->shape(input, &choice)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *choice_p = choice;
    return MSCCLPP_OK;
}

/*
 * Returns the algorithm that the rules name for a call between nodes; NULL: they name none. As in find_by_rules, a
 * parameter for one of the sizes between nodes disables the rules.
 */
static const mscclpp_algo_t *find_spanning_by_rules(const mscclpp_select_input_t *input)
{
    const mscclpp_protocol_t *protocol = input->protocol;

    if (protocol->nodes_packets_max != 0 || protocol->nodes_split_min != 0 || protocol->nodes_ring_min != 0) {
        return NULL;
    }
    return match_rules(input);
}

/* Returns the algorithm of a call between nodes that the thresholds and the cost model choose. */
static const mscclpp_algo_t *find_spanning_by_thresholds(const mscclpp_select_input_t *input)
{
    if (mscclpp_prefers_packets(input)) {
        return mscclpp_prefers_doubling(input) ? &mscclpp_algo_allreduce_nodes_doubling
                                               : &mscclpp_algo_allreduce_nodes_packets;
    }
    if (mscclpp_prefers_trees(input)) {
        return &mscclpp_algo_allreduce_nodes_trees;
    }
    if (mscclpp_prefers_halving(input)) {
        return &mscclpp_algo_allreduce_nodes_halving;
    }
    if (mscclpp_prefers_ring(input)) {
        return &mscclpp_algo_allreduce_nodes_ring;
    }
    return mscclpp_prefers_splitting(input) ? &mscclpp_algo_allreduce_nodes_split : &mscclpp_algo_allreduce_nodes;
}

/*
 * Chooses the algorithm of an all-reduce between nodes. A parameter that forces an algorithm within one node is ignored
 * here, because its user cannot know which communicators span nodes. If the chosen algorithm cannot serve the call, its
 * fallbacks are tried: some transports carry no packets, and some patterns do not support 16-bit floats.
 */
static mscclpp_status_t select_spanning(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    const int32_t forced = input->protocol->algorithm;
    const mscclpp_algo_t *algo;

    if (forced >= 0 && mscclpp_algos[forced]->spans_nodes) {
        algo = mscclpp_algos[forced];
    } else {
        algo = find_spanning_by_rules(input);
    }
    if (algo == NULL) {
        algo = find_spanning_by_thresholds(input);
    }
    /*
     * A kernel that a graph may repeat cannot renew the flags of packets from other nodes, so an algorithm with epochs
     * is skipped. The last algorithm of each chain of fallbacks has no epochs.
     */
    while (algo->fallback != NULL && (mscclpp_select_shape(input, algo, choice_p) != MSCCLPP_OK ||
                                      (input->may_be_replayed && choice_p->epochs != 0))) {
        algo = algo->fallback;
    }
    return mscclpp_select_shape(input, algo, choice_p);
}

/*
 * Chooses the algorithm that the user forces, for a call on one node, or one of its fallbacks. A user who forces
 * engines or puts cannot know which calls engines cannot serve, nor how large the scratch is yet.
 */
static mscclpp_status_t select_forced(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    const mscclpp_algo_t *algo = mscclpp_algos[input->protocol->algorithm];

    while (input->may_be_replayed && algo->maps_buffers && !input->has_mapped) {
        algo = algo->fallback;
    }
    if (algo->fallback != NULL && mscclpp_select_shape(input, algo, choice_p) != MSCCLPP_OK) {
        algo = algo->fallback;
    }
    return mscclpp_select_shape(input, algo, choice_p);
}

/* Chooses the algorithm that the rules name, or one of its fallbacks. */
static mscclpp_status_t select_by_rules(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    const mscclpp_algo_t *algo = find_by_rules(input);
    mscclpp_status_t status = MSCCLPP_ERR_NOT_SUPPORTED;

    for (; algo != NULL && status != MSCCLPP_OK; algo = algo->fallback) {
        status = mscclpp_select_shape(input, algo, choice_p);
    }
    return status;
}

/* Returns the value of a parameter for a size, or `built_in` if the user has not set the parameter. */
static uint64_t take_user_size(uint64_t user_size, uint64_t built_in)
{
    return user_size != 0 ? user_size : built_in;
}

/* Returns the largest message for two-phase packets. Mapped buffers take the place of LL128 if they are preferred. */
static uint64_t find_twophase_max(const mscclpp_select_input_t *input, bool prefers_mapped)
{
    const mscclpp_thresholds_t *thresholds = mscclpp_thresholds_find(input);
    const uint64_t built_in =
        mscclpp_uses_ll128(input) && !prefers_mapped ? thresholds->lines_max : thresholds->twophase_max;

    return take_user_size(input->protocol->twophase_max, built_in);
}

/* Returns true if copy engines should serve the call. A user who sets put_max wants puts, and not the built-in choice.
 */
static bool prefers_engines(const mscclpp_select_input_t *input)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const uint64_t engine_min = take_user_size(protocol->engine_min, mscclpp_thresholds_find(input)->engine_min);
    const bool prefers_puts = protocol->engine_min == 0 && input->bytes <= protocol->put_max;

    return may_map(input) && input->bytes >= engine_min && !prefers_puts;
}

/*
 * Chooses the algorithm of the thresholds for a call on one node. If it cannot serve the call, the last one does: it
 * serves messages of any size, even if the scratch is too small for the areas of the others.
 */
static mscclpp_status_t select_by_thresholds(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const mscclpp_thresholds_t *thresholds = mscclpp_thresholds_find(input);
    const bool prefers_mapped = input->has_mapped && mscclpp_prefers_mapping(input);
    const mscclpp_algo_t *algo;

    if (input->bytes <= take_user_size(protocol->oneshot_max, thresholds->oneshot_max)) {
        algo = &mscclpp_algo_allreduce_oneshot;
    } else if (input->bytes <= find_twophase_max(input, prefers_mapped)) {
        algo = &mscclpp_algo_allreduce_twophase;
    } else if (prefers_engines(input) &&
               mscclpp_select_shape(input, &mscclpp_algo_allreduce_engines, choice_p) == MSCCLPP_OK) {
        return MSCCLPP_OK;
    } else if (input->bytes <= take_user_size(protocol->put_max, thresholds->put_max) && input->nranks > 1 &&
               !prefers_mapped) {
        algo = &mscclpp_algo_allreduce_oneshot_put;
    } else {
        algo = may_map(input) ? &mscclpp_algo_allreduce_zerocopy : &mscclpp_algo_allreduce_scratch;
    }
    if (mscclpp_select_shape(input, algo, choice_p) == MSCCLPP_OK) {
        return MSCCLPP_OK;
    }
    return mscclpp_select_shape(input, &mscclpp_algo_allreduce_scratch, choice_p);
}

/* On several nodes, select_spanning does all of this. A forced algorithm for several nodes is ignored on one node. */
mscclpp_status_t mscclpp_select_allreduce(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    const int32_t forced = input->protocol->algorithm;

    if (forced == MSCCLPP_ALGO_STAGE || (input->nodes > 1 && input->is_early && !input->hosts_can_meet)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (input->nodes > 1) {
        return select_spanning(input, choice_p);
    }
    if (forced >= 0 && !mscclpp_algos[forced]->spans_nodes) {
        return select_forced(input, choice_p);
    }
    if (select_by_rules(input, choice_p) == MSCCLPP_OK) {
        return MSCCLPP_OK;
    }
    return select_by_thresholds(input, choice_p);
}

mscclpp_status_t mscclpp_select_meeting(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    return mscclpp_select_shape(input, &mscclpp_algo_allreduce_nodes, choice_p);
}

void mscclpp_select_explain(const mscclpp_select_input_t *input, const mscclpp_choice_t *choice, char *text,
                            size_t size)
{
    mscclpp_choice_t other;
    const bool can_double = mscclpp_select_shape(input, &mscclpp_algo_allreduce_nodes_doubling, &other) == MSCCLPP_OK;

    mscclpp_between_explain(input, choice->algo->name, can_double, text, size);
}
