/*
 * Proofs that earlier processes of this user have stored, so that a plan is simulated once and not in every job. Each
 * proof is a small file in the folder coll-mscclpp/proofs of $XDG_CACHE_HOME, or of ~/.cache. A refusal is not stored.
 * If a file is missing, belongs to another user or cannot be read, the plan is simulated again.
 */
#ifndef MCA_COMMON_PLAN_PROOFS_H
#define MCA_COMMON_PLAN_PROOFS_H

#include "mca/common/plan/plan.h"

/*
 * Returns true if an earlier process has proven this plan, which is identified by the digest and size of its file.
 * `kind` is a word for the kind of proof, and becomes part of the name of a file.
 */
bool mscclpp_plan_proof_is_kept(const mscclpp_plan_t *plan, const char *kind);

/* Stores a proof for later processes. A failure is not reported. */
void mscclpp_plan_proof_keep(const mscclpp_plan_t *plan, const char *kind);

#endif
