/*
 * A rules file: the user's table of which algorithm serves a collective, in place of the built-in thresholds. It has
 * one rule on a line; a "#" begins a comment:
 *
 *     ranks=4 device=cuda bytes<=128k algorithm=oneshot
 *     collective=bcast ranks=4 device=cuda bytes<=64k algorithm=packets
 *     collective=allgather ranks=4 device=cuda bytes<=1m algorithm=plan:my_ring
 *     ranks=4 device=cuda bytes<=1m in_place=yes algorithm=plan:my_two_steps
 *     ranks=16 nodes=2 device=cuda bytes<=64k algorithm=plan:my_hierarchy
 *     ranks=512 nodes=64 device=cuda bytes<=1m algorithm=nodes_halving
 *
 * A rule without a collective is for all-reduce, and `bytes` is the size of the largest message. For other collectives,
 * `bytes` is the size of the largest block: the data of a rank for one other rank, or the whole message of a broadcast,
 * a reduction or a scan.
 *
 * The rules of one collective, number of ranks and kind of device are tried in order. The first one that fits the call
 * is used. A rule fits if its size is not smaller than that of the call, and if the number of nodes and `in_place` are
 * those of the call. If no rule fits, the built-in thresholds decide. Rules for several nodes name the algorithms
 * between nodes, or plans. A rule is an error if an earlier one takes all its calls.
 *
 *     transport=ucx latency=2.8 overhead=0.4 gap=0.1 bandwidth=23.5
 *
 * A line that begins with transport= is no rule. It replaces the figures that the cost model uses for a transport
 * between nodes: times in microseconds, and a rate in 10^9 bytes per second.
 *
 * A plan is named by the name inside its file, not by the file's name (mca/common/plan/library.h). If no plan of that
 * name serves the call, the built-in thresholds decide.
 */
#ifndef MCA_COMMON_ALGO_RULES_H
#define MCA_COMMON_ALGO_RULES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mca/common/algo/algo.h"
#include "mca/common/base/colls.h"
#include "mca/common/base/status.h"

/* The contents of a rules file. */
typedef struct mscclpp_rules mscclpp_rules_t;

/*
 * Creates empty rules. Returns NULL if there is no memory, which is logged. The caller frees them with
 * mscclpp_rules_destroy.
 */
mscclpp_rules_t *mscclpp_rules_create(void);

/*
 * Reads a rules file into *rules_p, which the caller frees with mscclpp_rules_destroy. After an error, *rules_p is not
 * set. Returns MSCCLPP_ERR_INVALID if a line is not a rule; one logged line names the file, the line number, the value
 * and the allowed values. Returns MSCCLPP_ERR_SYSTEM, which is also logged, if the file cannot be read or is neither a
 * regular file nor a link to one. A lack of memory is logged, too, and gives MSCCLPP_ERR_NO_MEMORY, or
 * MSCCLPP_ERR_INVALID if it is for the rule of a line.
 */
mscclpp_status_t mscclpp_rules_read(const char *path, mscclpp_rules_t **rules_p);
void mscclpp_rules_destroy(mscclpp_rules_t *rules); /* NULL is allowed */

/*
 * Returns the all-reduce rules for `nranks` ranks, on any number of nodes. `rules` owns them. They are empty if the
 * file has none for this number of ranks, if `rules` is NULL, or for one rank.
 */
const mscclpp_rule_set_t *mscclpp_rules_find(const mscclpp_rules_t *rules, uint32_t nranks, bool on_twin);

/* Returns the rules of the other collectives, as mscclpp_rules_find does for all-reduce. */
const mscclpp_coll_rule_set_t *mscclpp_rules_find_coll(const mscclpp_rules_t *rules, uint32_t nranks, bool on_twin);

/*
 * Returns the measured figures of MSCCLPP_RULE_TRANSPORTS transports, which `rules` owns. If `rules` is NULL, no
 * transport has measured figures.
 */
const mscclpp_rule_figures_t *mscclpp_rules_find_figures(const mscclpp_rules_t *rules);

/*
 * Replaces the measured figures of a transport, or adds them. `transport` is a number that mscclpp_cost_find_transport
 * has returned; it must not be -1.
 */
void mscclpp_rules_replace_figures(mscclpp_rules_t *rules, int transport, const mscclpp_rule_figures_t *figures);

/*
 * Returns the number that stands for a plan in the field `algorithm` of a rule: a hash of the plan's name, at least
 * MSCCLPP_RULE_PLANS. Two plans in use are assumed to have different hashes.
 */
int64_t mscclpp_rule_hash_plan(const char *name);

/*
 * Replaces the all-reduce rules for `nranks` ranks on `nodes` nodes by the rules in `set`, whose sizes must ascend and
 * whose fields `nodes` are ignored. On one node, `nranks` must be 2 to MSCCLPP_DEV_MAX_RANKS. Rules for other numbers
 * of nodes are kept. Returns false, with no rule changed, if there would be too many rules, or if there is no memory,
 * which is logged.
 */
bool mscclpp_rules_replace(mscclpp_rules_t *rules, uint32_t nranks, uint32_t nodes, bool on_twin,
                           const mscclpp_rule_set_t *set);

/*
 * Replaces the rules of another collective in the same way. Sizes are those of the largest block. Returns false, with
 * no rule changed, if there would be too many rules of all these collectives, or if there is no memory, which is
 * logged.
 */
bool mscclpp_rules_replace_coll(mscclpp_rules_t *rules, mscclpp_coll_t coll, uint32_t nranks, uint32_t nodes,
                                bool on_twin, const mscclpp_rule_set_t *set);

/*
 * Adds the name of a plan, so that rules with the plan's hash are written with this name. A name that was added before
 * is not added again. Returns false, with nothing logged, if the name does not have 1 to 127 characters, or if there
 * are 256 other names already.
 */
bool mscclpp_rules_add_plan(mscclpp_rules_t *rules, const char *name);

/* Writes the rules as a file that mscclpp_rules_read can read. Write errors are kept in the file's state (ferror). */
void mscclpp_rules_write(const mscclpp_rules_t *rules, FILE *file);

#endif
