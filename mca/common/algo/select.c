#include "mca/common/algo/select.h"

#include "mca/common/algo/allreduce/between.h"
#include "mca/common/algo/allreduce/thresholds.h"
#include "mca/common/algo/rule_match.h"

/*
 * Returns true if the call may map the peers' buffers. An early call maps no buffers unless they are mapped already or
 * its hosts may exchange them.
 */
static bool may_map(const mscclpp_select_input_t *input)
{
    return input->protocol->zerocopy != 0 && (!input->early || input->mapped || input->exchanges);
}

/*
 * Returns the algorithm that the rules name for a call on one node; NULL: they name none. The rules are ignored if the
 * user sets any of the sizes by a parameter: such a parameter is meant to work with the whole built-in table.
 *
 * An algorithm that maps buffers is replaced by its fallback if this call may not map buffers. Each chain of fallbacks
 * ends with an algorithm that maps none, so the loop ends before a NULL.
 */
static const mscclpp_algo_t *find_by_rules(const mscclpp_select_input_t *input)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const mscclpp_algo_t *algo;
    int64_t algorithm;

    if (protocol->oneshot_max != 0 || protocol->twophase_max != 0 || protocol->put_max != 0 ||
        protocol->engine_min != 0) {
        return NULL;
    }
    if (!mscclpp_rule_match(protocol, MSCCLPP_COLL_LAST, input->bytes, input->in_place, input->nodes, &algorithm) ||
        algorithm >= MSCCLPP_RULE_PLANS) {
        return NULL; /* no rule is for this call, or it names a plan that does not serve the call */
    }
    /* Rules have only indices of the registry. */
    algo = mscclpp_algos[algorithm];
    while (algo->maps_buffers && !may_map(input)) {
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
 * Returns the algorithm that the rules name for a call between nodes; NULL: they name none. The rules do not count if
 * the user sets one of the sizes between nodes by a parameter, as in find_by_rules.
 */
static const mscclpp_algo_t *find_spanning_by_rules(const mscclpp_select_input_t *input)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    int64_t algorithm;

    if (protocol->nodes_packets_max != 0 || protocol->nodes_split_min != 0 || protocol->nodes_ring_min != 0 ||
        !mscclpp_rule_match(protocol, MSCCLPP_COLL_LAST, input->bytes, input->in_place, input->nodes, &algorithm) ||
        algorithm >= MSCCLPP_RULE_PLANS) {
        return NULL;
    }
    return mscclpp_algos[algorithm];
}

/*
 * Chooses the algorithm of an all-reduce between nodes. A user who forces an algorithm cannot know which communicators
 * span nodes, so a forced algorithm within one node is ignored here. If the chosen algorithm cannot serve the call, its
 * fallbacks are tried: some transports carry no packets, and some patterns do not support 16-bit floats.
 */
static mscclpp_status_t select_spanning(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const mscclpp_algo_t *ruled = find_spanning_by_rules(input), *algo = &mscclpp_algo_allreduce_nodes;

    if (protocol->algorithm >= 0 && mscclpp_algos[protocol->algorithm]->spans_nodes) {
        algo = mscclpp_algos[protocol->algorithm];
    } else if (ruled != NULL) {
        algo = ruled;
    } else if (mscclpp_worth_packets(input)) {
        algo = mscclpp_worth_doubling(input) ? &mscclpp_algo_allreduce_nodes_doubling
                                             : &mscclpp_algo_allreduce_nodes_packets;
    } else if (mscclpp_worth_trees(input)) {
        algo = &mscclpp_algo_allreduce_nodes_trees;
    } else if (mscclpp_worth_halving(input)) {
        algo = &mscclpp_algo_allreduce_nodes_halving;
    } else if (mscclpp_worth_ring(input)) {
        algo = &mscclpp_algo_allreduce_nodes_ring;
    } else if (mscclpp_worth_splitting(input)) {
        algo = &mscclpp_algo_allreduce_nodes_split;
    }
    /*
     * A kernel that a graph may repeat cannot renew the flags of packets from other nodes, so an algorithm with epochs
     * is skipped. The last algorithm of each chain of fallbacks has no epochs.
     */
    while (algo->fallback != NULL &&
           (mscclpp_select_shape(input, algo, choice_p) != MSCCLPP_OK || (input->replayed && choice_p->epochs != 0))) {
        algo = algo->fallback;
    }
    return mscclpp_select_shape(input, algo, choice_p);
}

/* Chooses the grid of the algorithm that the user forces, for a call on one node, or that of one of its fallbacks. */
static mscclpp_status_t select_forced(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    const mscclpp_algo_t *algo = mscclpp_algos[input->protocol->algorithm];

    while (input->replayed && algo->maps_buffers && !input->mapped) {
        algo = algo->fallback;
    }
    /*
     * A user who forces engines or puts cannot know which calls engines cannot serve, nor how large the scratch is yet.
     * Such calls use the next algorithm.
     */
    if (algo->fallback != NULL && mscclpp_select_shape(input, algo, choice_p) != MSCCLPP_OK) {
        algo = algo->fallback;
    }
    return mscclpp_select_shape(input, algo, choice_p);
}

mscclpp_status_t mscclpp_select_allreduce(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const mscclpp_thresholds_t *thresholds = mscclpp_thresholds_find(input);
    uint64_t oneshot_max = protocol->oneshot_max != 0 ? protocol->oneshot_max : thresholds->oneshot_max;
    const bool prefers_mapped = input->mapped && mscclpp_worth_mapping(input);
    uint64_t twophase_max = protocol->twophase_max != 0                      ? protocol->twophase_max
                            : mscclpp_select_ll128(input) && !prefers_mapped ? thresholds->lines_max
                                                                             : thresholds->twophase_max;
    uint64_t put_max = protocol->put_max != 0 ? protocol->put_max : thresholds->put_max;
    uint64_t engine_min = protocol->engine_min != 0 ? protocol->engine_min : thresholds->engine_min;
    /* A user who sets put_max wants puts, and not the copy engines of the built-in table. */
    const bool prefers_puts = protocol->engine_min == 0 && input->bytes <= protocol->put_max;
    const mscclpp_algo_t *algo;

    if (protocol->algorithm < -1) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (input->nodes > 1) {
        return input->early && !input->hosts_can_meet ? MSCCLPP_ERR_NOT_SUPPORTED : select_spanning(input, choice_p);
    }
    if (protocol->algorithm >= 0 && !mscclpp_algos[protocol->algorithm]->spans_nodes) {
        return select_forced(input, choice_p);
    }
    /*
     * Here and below, an early call uses an algorithm that maps buffers only if `mapped` or `exchanges` is set.
     * Otherwise the hosts would have to wait for one another.
     */
    algo = find_by_rules(input);
    while (algo != NULL) {
        if (mscclpp_select_shape(input, algo, choice_p) == MSCCLPP_OK) {
            return MSCCLPP_OK;
        }
        algo = algo->fallback;
    }
    if (input->bytes <= oneshot_max) {
        algo = &mscclpp_algo_allreduce_oneshot;
    } else if (input->bytes <= twophase_max) {
        algo = &mscclpp_algo_allreduce_twophase;
    } else if (may_map(input) && input->bytes >= engine_min && !prefers_puts &&
               mscclpp_select_shape(input, &mscclpp_algo_allreduce_engines, choice_p) == MSCCLPP_OK) {
        return MSCCLPP_OK;
    } else if (input->bytes <= put_max && input->nranks > 1 && !prefers_mapped) {
        algo = &mscclpp_algo_allreduce_oneshot_put;
    } else if (may_map(input)) {
        algo = &mscclpp_algo_allreduce_zerocopy;
    } else {
        algo = &mscclpp_algo_allreduce_scratch;
    }
    if (mscclpp_select_shape(input, algo, choice_p) == MSCCLPP_OK) {
        return MSCCLPP_OK;
    }
    /*
     * This algorithm serves messages of any size, even if the scratch is too small for the areas of other algorithms.
     */
    return mscclpp_select_shape(input, &mscclpp_algo_allreduce_scratch, choice_p);
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
