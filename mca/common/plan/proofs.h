/*
 * Proofs that earlier processes of this user have made, so that a plan is simulated once and not in every job. Each is
 * a small file in the folder coll-mscclpp/proofs of $XDG_CACHE_HOME, or of ~/.cache. Only success is kept. A file that
 * is missing, belongs to somebody else or cannot be read costs another simulation, and nothing else.
 */
#ifndef MCA_COMMON_PLAN_PROOFS_H
#define MCA_COMMON_PLAN_PROOFS_H

#include "mca/common/plan/plan.h"

/*
 * Tells whether an earlier process has proven this plan, which is known by the digest and size of its file. `kind` is a
 * word for what was proven; it becomes part of a file's name.
 */
bool mscclpp_plan_proof_is_kept(const mscclpp_plan_t *plan, const char *kind);

/* Keeps a proof for later processes. Says nothing if that fails. */
void mscclpp_plan_proof_keep(const mscclpp_plan_t *plan, const char *kind);

#endif
