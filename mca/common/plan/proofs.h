/*
 * Proofs that earlier processes of this user have made, so that a plan is simulated once and not in every job: one
 * small file for each, in the folder coll-mscclpp/proofs of $XDG_CACHE_HOME, or of ~/.cache. Only what was proven is
 * kept; whatever is missing, foreign or cannot be read only costs another simulation.
 */
#ifndef MCA_COMMON_PLAN_PROOFS_H
#define MCA_COMMON_PLAN_PROOFS_H

#include "mca/common/plan/plan.h"

/* `kind`: what was proven, a word. True if this file, byte for byte by its digest and size, was proven before. */
bool mscclpp_plan_proof_is_kept(const mscclpp_plan_t *plan, const char *kind);
void mscclpp_plan_proof_keep(const mscclpp_plan_t *plan, const char *kind);

#endif
