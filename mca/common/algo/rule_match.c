#include "mca/common/algo/rule_match.h"

/* The facts of a call by which rules are found. */
typedef struct {
    uint64_t bytes;
    uint64_t nodes;          /* 0: on one node, as in rules */
    uint64_t excluded_place; /* rules with this place are not for the call */
} call_t;

/* Returns true if a rule for up to `bytes`, for `place` and for `nodes` is for the call. */
static bool is_for_call(const call_t *call, uint64_t bytes, uint64_t place, uint64_t nodes)
{
    return call->bytes <= bytes && call->excluded_place != place && call->nodes == nodes;
}

/* All-reduce (MSCCLPP_COLL_LAST) has a list of its own. In each list, the first rule that matches is used. */
bool mscclpp_rule_match(const mscclpp_protocol_t *protocol, mscclpp_coll_t coll, uint64_t bytes, bool in_place,
                        uint32_t nodes, int64_t *algorithm_p)
{
    const call_t call = {.bytes = bytes,
                         .nodes = nodes > 1 ? nodes : 0,
                         .excluded_place = in_place ? MSCCLPP_RULE_OUT_OF_PLACE : MSCCLPP_RULE_IN_PLACE};
    const uint64_t allreduce_count = MSCCLPP_COLL_LAST == coll ? protocol->rules.count : 0;
    const uint64_t coll_count = MSCCLPP_COLL_LAST == coll ? 0 : protocol->coll_rules.count;
    uint64_t i;

    for (i = 0; i < allreduce_count; ++i) {
        const mscclpp_rule_t *rule = &protocol->rules.rules[i];

        if (is_for_call(&call, rule->bytes, rule->place, rule->nodes)) {
            *algorithm_p = rule->algorithm;
            return true;
        }
    }
    for (i = 0; i < coll_count; ++i) {
        const mscclpp_coll_rule_t *rule = &protocol->coll_rules.rules[i];

        if (rule->coll == (int64_t)coll && is_for_call(&call, rule->bytes, rule->place, rule->nodes)) {
            *algorithm_p = rule->algorithm;
            return true;
        }
    }
    return false;
}
