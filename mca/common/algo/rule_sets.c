/* Stores the rules and the figures of a rules file, and finds and replaces them. */
#include "mca/common/algo/rule_sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

/* The constants of the hash FNV-1a for 64 bits. */
#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

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

/* Returns the rules for this number of ranks, or NULL if there are none. `rules` may be NULL. */
static const mscclpp_rule_sets_t *find_sets(const mscclpp_rules_t *rules, uint32_t nranks, bool on_twin)
{
    const mscclpp_rule_sets_t *sets = rules != NULL ? rules->first : NULL;

    while (sets != NULL && (sets->nranks != nranks || sets->on_twin != on_twin)) {
        sets = sets->next;
    }
    return sets;
}

/* The search stops at the entry or, because the list is sorted, at the place where a new entry belongs. */
mscclpp_rule_sets_t *mscclpp_rules_ensure_sets(mscclpp_rules_t *rules, uint32_t nranks, bool on_twin)
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

int64_t mscclpp_rule_hash_plan(const char *name)
{
    uint64_t hash = FNV_OFFSET;

    for (; '\0' != *name; ++name) {
        hash = (hash ^ (unsigned char)*name) * FNV_PRIME;
    }
    /* The two highest bits are lost, so they are mixed into the ones below. */
    return MSCCLPP_RULE_PLANS | (int64_t)((hash ^ hash >> 2) & (uint64_t)(MSCCLPP_RULE_PLANS - 1));
}

bool mscclpp_rules_add_plan(mscclpp_rules_t *rules, const char *name)
{
    int i = 0;

    /* Ends at the name, if it is known, or at the first free place. */
    while (i < MSCCLPP_RULE_PLANS_MAX && '\0' != rules->plan[i][0] && 0 != strcmp(rules->plan[i], name)) {
        ++i;
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

/* Returns the field `nodes` of rules for this number of nodes: 0 stands for one node. */
static uint64_t to_rule_nodes(uint32_t nodes)
{
    return nodes > 1 ? nodes : 0;
}

/*
 * Puts the new rules first, and then the old rules for other numbers of nodes. Works on a copy, so that the old rules
 * stay unchanged if there are too many.
 */
bool mscclpp_rules_replace(mscclpp_rules_t *rules, uint32_t nranks, uint32_t nodes, bool on_twin,
                           const mscclpp_rule_set_t *set)
{
    mscclpp_rule_set_t merged = *set;
    mscclpp_rule_sets_t *sets = mscclpp_rules_ensure_sets(rules, nranks, on_twin);
    uint64_t i;

    if (sets == NULL) {
        return false;
    }
    for (i = 0; i < merged.count; ++i) {
        merged.rules[i].nodes = to_rule_nodes(nodes);
    }
    /* A call uses only rules for its own number of nodes, so rules for other numbers may follow. */
    for (i = 0; i < sets->allreduce.count; ++i) {
        if (sets->allreduce.rules[i].nodes == to_rule_nodes(nodes)) {
            continue;
        }
        if (MSCCLPP_RULES_MAX == merged.count) {
            return false;
        }
        merged.rules[merged.count++] = sets->allreduce.rules[i];
    }
    sets->allreduce = merged;
    return true;
}

/* Works on a copy, as mscclpp_rules_replace does. */
bool mscclpp_rules_replace_coll(mscclpp_rules_t *rules, mscclpp_coll_t coll, uint32_t nranks, uint32_t nodes,
                                bool on_twin, const mscclpp_rule_set_t *set)
{
    mscclpp_rule_sets_t *sets = mscclpp_rules_ensure_sets(rules, nranks, on_twin);
    mscclpp_coll_rule_set_t merged = {0};
    uint64_t i;

    if (sets == NULL) {
        return false;
    }
    /* A call uses only rules for its own collective and number of nodes, so the other rules may come first. */
    for (i = 0; i < sets->colls.count; ++i) {
        if (sets->colls.rules[i].coll != (int64_t)coll || sets->colls.rules[i].nodes != to_rule_nodes(nodes)) {
            merged.rules[merged.count++] = sets->colls.rules[i];
        }
    }
    if (set->count > MSCCLPP_COLL_RULES_MAX - merged.count) {
        return false;
    }
    for (i = 0; i < set->count; ++i) {
        merged.rules[merged.count++] = (mscclpp_coll_rule_t){.bytes = set->rules[i].bytes,
                                                             .coll = (int64_t)coll,
                                                             .algorithm = set->rules[i].algorithm,
                                                             .place = set->rules[i].place,
                                                             .nodes = to_rule_nodes(nodes)};
    }
    sets->colls = merged;
    return true;
}
