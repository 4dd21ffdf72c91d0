/*
 * Rules of a file that choose the algorithm of a collective, in place of the built-in table. One rule a line, a "#"
 * begins a comment:
 *
 *     ranks=4 device=cuda bytes<=128k algorithm=oneshot
 *     collective=bcast ranks=4 device=cuda bytes<=64k algorithm=packets
 *     collective=allgather ranks=4 device=cuda bytes<=1m algorithm=plan:my_ring
 *     ranks=4 device=cuda bytes<=1m in_place=yes algorithm=plan:my_two_steps
 *
 * A plan is named by its own name, not by its file's (mca/common/plan/library.h). If there is none of that name that
 * serves the call, the built-in table chooses.
 *
 * Without a collective it is of all-reduces. Of the others `bytes` are those of one block, the largest if they differ:
 * what a rank has for another one, or the whole message of a broadcast, a reduction or a scan.
 *
 * Of the rules of one collective and number of ranks on one kind of device, the first one counts that is for such
 * calls, in place or not, and whose size is not smaller than the message. A call that none is for is left to the
 * built-in table. Each rule has to be for some calls that those before it are not for.
 */
#ifndef MCA_COMMON_ALGO_RULES_H
#define MCA_COMMON_ALGO_RULES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mca/common/algo/algo.h"
#include "mca/common/base/status.h"

/* The contents of a file. */
typedef struct mscclpp_rules mscclpp_rules_t;

/* Makes an empty set of rules. NULL, logged, without memory. Free it with mscclpp_rules_destroy. */
mscclpp_rules_t *mscclpp_rules_create(void);

/*
 * Reads a file. MSCCLPP_ERR_INVALID if a line is not a rule; one logged line gives the file, the line number, the value
 * and what is allowed. MSCCLPP_ERR_SYSTEM, also logged, if the file cannot be read or is neither a regular file nor a
 * link to one.
 */
mscclpp_status_t mscclpp_rules_read(const char *path, mscclpp_rules_t **rules_p);
void mscclpp_rules_destroy(mscclpp_rules_t *rules); /* NULL is allowed */

/*
 * The set for `nranks` ranks, owned by the rules. It is empty if there are no such rules, if `rules` is NULL, and for
 * one rank.
 */
const mscclpp_rule_set_t *mscclpp_rules_find(const mscclpp_rules_t *rules, uint32_t nranks, bool on_twin);

/* The same of the other collectives. */
const mscclpp_coll_rule_set_t *mscclpp_rules_find_coll(const mscclpp_rules_t *rules, uint32_t nranks, bool on_twin);

/* What stands for a plan's name in rules, at least MSCCLPP_RULE_PLANS. Names that differ have other numbers. */
int64_t mscclpp_rule_by_plan(const char *name);

/* Takes a set, whose sizes ascend, for 2 to MSCCLPP_DEV_MAX_RANKS ranks in place of the one there is. */
void mscclpp_rules_replace(mscclpp_rules_t *rules, uint32_t nranks, bool on_twin, const mscclpp_rule_set_t *set);

/* Writes a file that mscclpp_rules_read can read. Errors stay in the file's state (ferror). */
void mscclpp_rules_write(const mscclpp_rules_t *rules, FILE *file);

#endif
