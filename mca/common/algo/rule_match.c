#include "mca/common/algo/rule_match.h"

/*
 * In each list, the first rule that matches wins. All-reduce (MSCCLPP_COLL_LAST) has a list of its own, so one of the
 * two loops has no iterations. Rules for one node hold 0 as their number of nodes.
 */
bool mscclpp_rule_match(const mscclpp_protocol_t *protocol, mscclpp_coll_t coll, uint64_t bytes, bool in_place,
                        uint32_t nodes, int64_t *algorithm_p)
{
    const uint64_t rule_nodes = nodes > 1 ? nodes : 0;
    const uint64_t excluded = in_place ? MSCCLPP_RULE_OUT_OF_PLACE : MSCCLPP_RULE_IN_PLACE;
    uint64_t i;

    for (i = 0; MSCCLPP_COLL_LAST == coll && i < protocol->rules.count; ++i) {
        const mscclpp_rule_t *rule = &protocol->rules.rules[i];

        if (bytes <= rule->bytes && excluded != rule->place && rule_nodes == rule->nodes) {
            *algorithm_p = rule->algorithm;
            return true;
        }
    }
    for (i = 0; MSCCLPP_COLL_LAST != coll && i < protocol->coll_rules.count; ++i) {
        const mscclpp_coll_rule_t *rule = &protocol->coll_rules.rules[i];

        if (rule->coll == (int64_t)coll && bytes <= rule->bytes && excluded != rule->place &&
            rule_nodes == rule->nodes) {
            *algorithm_p = rule->algorithm;
            return true;
        }
    }
    return false;
}
