/*
 * Proofs that earlier processes of this user have made, so that a plan is simulated once and not in every job: one
 * small file for each, in the folder coll-mscclpp/proofs of $XDG_CACHE_HOME, or of ~/.cache. Only what was proven is
 * kept; whatever is missing, foreign or cannot be read only costs another simulation.
 */
#ifndef MCA_COMMON_PLAN_PROOFS_H
#define MCA_COMMON_PLAN_PROOFS_H

#include "mca/common/plan/plan.h"

/*
 * True if an earlier process has proven this file, known by its digest and size. `kind` is a word for what was proven.
 */
bool mscclpp_plan_proof_is_kept(const mscclpp_plan_t *plan, const char *kind);

/* Keeps a proof for later processes. Says nothing if that fails. */
void mscclpp_plan_proof_keep(const mscclpp_plan_t *plan, const char *kind);

#endif
