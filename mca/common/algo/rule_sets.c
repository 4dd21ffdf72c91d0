/* Stores the rules and the figures of a rules file, and finds and replaces them. */
#include "mca/common/algo/rule_sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

mscclpp_rules_t *mscclpp_rules_create(void)
{
    mscclpp_rules_t *rules = calloc(1, sizeof(*rules));

    if (rules == NULL) {
        mscclpp_error("no memory for rules");
    }
    return rules;
}

void mscclpp_rules_destroy(mscclpp_rules_t *rules)
{
    while (rules != NULL && rules->first != NULL) {
        mscclpp_rule_sets_t *next = rules->first->next;

        free(rules->first);
        rules->first = next;
    }
    free(rules);
}

/* Returns the rules for so many ranks, or NULL if there are none. `rules` may be NULL. */
static const mscclpp_rule_sets_t *find_sets(const mscclpp_rules_t *rules, uint32_t nranks, bool on_twin)
{
    const mscclpp_rule_sets_t *sets = rules != NULL ? rules->first : NULL;

    while (sets != NULL && (sets->nranks != nranks || sets->on_twin != on_twin)) {
        sets = sets->next;
    }
    return sets;
}

/* The list is sorted by kind of device, then by number of ranks. The search stops at the place of a new entry. */
mscclpp_rule_sets_t *mscclpp_rules_have_sets(mscclpp_rules_t *rules, uint32_t nranks, bool on_twin)
{
    mscclpp_rule_sets_t **link = &rules->first, *sets;

    while (*link != NULL && ((*link)->on_twin < on_twin || ((*link)->on_twin == on_twin && (*link)->nranks < nranks))) {
        link = &(*link)->next;
    }
    if (*link != NULL && (*link)->on_twin == on_twin && (*link)->nranks == nranks) {
        return *link;
    }
    sets = calloc(1, sizeof(*sets));
    if (sets == NULL) {
        mscclpp_error("no memory for rules");
        return NULL;
    }
    sets->next = *link;
    sets->nranks = nranks;
    sets->on_twin = on_twin;
    *link = sets;
    return sets;
}

int64_t mscclpp_rule_by_plan(const char *name)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325); /* this and the factor below are those of FNV-1a for 64 bits */

    for (; '\0' != *name; ++name) {
        digest = (digest ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return MSCCLPP_RULE_PLANS | (int64_t)((digest ^ digest >> 2) & (uint64_t)(MSCCLPP_RULE_PLANS - 1));
}

bool mscclpp_rules_name_plan(mscclpp_rules_t *rules, const char *name)
{
    int i;

    /* Ends at the name, if it is known, or at the first free place. */
    for (i = 0; i < MSCCLPP_RULE_PLANS_MAX && '\0' != rules->plan[i][0] && 0 != strcmp(rules->plan[i], name); ++i) {
    }
    if ('\0' == *name || strlen(name) >= MSCCLPP_RULE_PLAN_NAME_MAX || i == MSCCLPP_RULE_PLANS_MAX) {
        return false;
    }
    (void)snprintf(rules->plan[i], sizeof(rules->plan[i]), "%s", name);
    return true;
}

const mscclpp_rule_set_t *mscclpp_rules_find(const mscclpp_rules_t *rules, uint32_t nranks, bool on_twin)
{
    static const mscclpp_rule_set_t empty;

    const mscclpp_rule_sets_t *sets = find_sets(rules, nranks, on_twin);

    return sets == NULL ? &empty : &sets->allreduce;
}

const mscclpp_coll_rule_set_t *mscclpp_rules_find_coll(const mscclpp_rules_t *rules, uint32_t nranks, bool on_twin)
{
    static const mscclpp_coll_rule_set_t empty;

    const mscclpp_rule_sets_t *sets = find_sets(rules, nranks, on_twin);

    return sets == NULL ? &empty : &sets->colls;
}

const mscclpp_rule_figures_t *mscclpp_rules_find_figures(const mscclpp_rules_t *rules)
{
    static const mscclpp_rule_figures_t none[MSCCLPP_RULE_TRANSPORTS];

    return rules == NULL ? none : rules->figures;
}

void mscclpp_rules_replace_figures(mscclpp_rules_t *rules, int transport, const mscclpp_rule_figures_t *figures)
{
    rules->figures[transport] = *figures;
}

/* Returns the number of nodes as rules hold it: 0 stands for one node. */
static uint64_t nodes_in_rule(uint32_t nodes)
{
    return nodes > 1 ? nodes : 0;
}

/*
 * Puts the new rules first, and keeps the old rules for other numbers of nodes behind them. Builds the whole set in a
 * copy, so that the old rules are unchanged if there are too many.
 */
bool mscclpp_rules_replace(mscclpp_rules_t *rules, uint32_t nranks, uint32_t nodes, bool on_twin,
                           const mscclpp_rule_set_t *set)
{
    mscclpp_rule_set_t merged = *set;
    mscclpp_rule_sets_t *sets = mscclpp_rules_have_sets(rules, nranks, on_twin);
    const mscclpp_rule_set_t *old = sets != NULL ? &sets->allreduce : NULL;
    uint64_t i;

    for (i = 0; i < merged.count; ++i) {
        merged.rules[i].nodes = nodes_in_rule(nodes);
    }
    /* A call uses only rules for its own number of nodes, so rules for other numbers may follow. */
    for (i = 0; old != NULL && i < old->count; ++i) {
        if (old->rules[i].nodes != nodes_in_rule(nodes)) {
            if (MSCCLPP_RULES_MAX == merged.count) {
                return false;
            }
            merged.rules[merged.count++] = old->rules[i];
        }
    }
    if (sets != NULL) {
        sets->allreduce = merged;
    }
    return sets != NULL;
}

/* Works on a copy, as mscclpp_rules_replace does. */
bool mscclpp_rules_replace_coll(mscclpp_rules_t *rules, mscclpp_coll_t coll, uint32_t nranks, uint32_t nodes,
                                bool on_twin, const mscclpp_rule_set_t *set)
{
    mscclpp_rule_sets_t *sets = mscclpp_rules_have_sets(rules, nranks, on_twin);
    mscclpp_coll_rule_set_t *old = sets != NULL ? &sets->colls : NULL, kept = {0};
    uint64_t i;

    /* A call uses only rules for its own collective and number of nodes, so the other rules may come first. */
    for (i = 0; old != NULL && i < old->count; ++i) {
        if (old->rules[i].coll != (int64_t)coll || old->rules[i].nodes != nodes_in_rule(nodes)) {
            kept.rules[kept.count++] = old->rules[i];
        }
    }
    if (old == NULL || set->count > MSCCLPP_COLL_RULES_MAX - kept.count) {
        return false;
    }
    for (i = 0; i < set->count; ++i) {
        kept.rules[kept.count++] = (mscclpp_coll_rule_t){.bytes = set->rules[i].bytes,
                                                         .coll = (int64_t)coll,
                                                         .algorithm = set->rules[i].algorithm,
                                                         .place = set->rules[i].place,
                                                         .nodes = nodes_in_rule(nodes)};
    }
    *old = kept;
    return true;
}
