/*
 * A team: the ranks of one communicator. Those of a node have their scratch mapped into one another; a fabric
 * (mca/common/fabric/fabric.h) joins several nodes.
 */
#ifndef MCA_COMMON_TEAM_TEAM_H
#define MCA_COMMON_TEAM_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/base/call.h"
#include "mca/common/base/config.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/oob/oob.h"
#include "mca/common/group/admission.h"
#include "mca/common/algo/rules.h"
#include "mca/common/base/status.h"

typedef struct mscclpp_team mscclpp_team_t;

typedef struct {
    const mscclpp_config_t *config; /* copied; rank 0's values of what ranks have in common are used by all */
    const mscclpp_config_t *own;    /* what this rank's user has set, for messages; NULL: `config` */
    const mscclpp_rules_t *rules;   /* NULL: none; rank 0's are used by all ranks */
    const mscclpp_gpu_ops_t *gpu;
    int device;
    bool concurrent; /* other threads may have tasks of other teams in flight on the device */
    /* For `concurrent`; NULL: the process's. Ranks that are threads of one process need one of their own each. */
    mscclpp_admission_t *admission;
    mscclpp_oob_t oob; /* copied; its context and label outlive the team */
    bool reuse;        /* take over a team of the same ranks that has ended, if they all have one; see team/park.h */
    int leader;        /* the lowest rank that the caller knows to be on this node, the own one included */
    uint64_t job; /* of the ranks of others, which the caller knows nothing of, those on this machine share the node */
} mscclpp_team_params_t;

/*
 * Local, and never waits for a peer's call (the GPU runtime may wait for running kernels): mappings of peers are closed
 * now, the own scratch is freed once every peer has closed it (at this call or at a later one, of any team). NULL is
 * allowed.
 */
void mscclpp_team_destroy(mscclpp_team_t *team);

/* Frees what destroyed teams still hold; waits at most `seconds` for the peers. To be called last. */
void mscclpp_team_finalize(double seconds);

/* The team's ranks lie on several nodes: somebody has to call mscclpp_team_progress_all now and then. */
bool mscclpp_team_spans_nodes(const mscclpp_team_t *team);

/*
 * Moves on what other ranks need of all teams over several nodes. To be called now and then, from any thread, while the
 * process is in the embedding runtime for other reasons.
 */
void mscclpp_team_progress_all(void);

int mscclpp_team_rank(const mscclpp_team_t *team);
int mscclpp_team_size(const mscclpp_team_t *team);

/* Name of the algorithm of the last call, for messages and reports; "none" before the first. */
const char *mscclpp_team_last_algorithm(const mscclpp_team_t *team);

/* How many operations were served without a launch. */
uint64_t mscclpp_team_lingered(const mscclpp_team_t *team);

/* Two-phase packets may be LL128 (device/lib/packet.h): trying has found that all links keep lines of 128 bytes whole.
 */
bool mscclpp_team_keeps_lines(const mscclpp_team_t *team);

/* The team has met an error and serves no further call. */
bool mscclpp_team_broken(const mscclpp_team_t *team);

/*
 * Tells the peers what this rank does in its next call, so that a mixture of host and device buffers can be named.
 * `call` counts the communicator's all-reduce calls on this rank from 1; a few nanoseconds, no waiting.
 */
void mscclpp_team_announce(mscclpp_team_t *team, uint64_t call, mscclpp_call_kind_t kind);

/* The first rank of this node that announced `kind` for call `call`, or -1. */
int mscclpp_team_find_announced(const mscclpp_team_t *team, uint64_t call, mscclpp_call_kind_t kind);

/*
 * Decides for all ranks of this node whether call `call` of a collective other than all-reduce is served as one on
 * device buffers: the first rank that comes decides by its own buffers, `device`, and the others do as it did. So
 * ranks that pass different kinds of memory, as a root and its peers may, go one way. True: as one on device buffers.
 */
bool mscclpp_team_decide(mscclpp_team_t *team, uint64_t call, bool device);

/* True if somebody has decided, and then whether as one on device buffers. */
bool mscclpp_team_is_decided(const mscclpp_team_t *team, uint64_t call, bool *device_p);

/*
 * For a rank that passes nothing in call `call`: true as long as ranks of this node have yet to come to it, and none
 * has said what kind of buffers it passes.
 */
bool mscclpp_team_awaits_announcements(const mscclpp_team_t *team, uint64_t call);

/*
 * For a rank that has been in call `call` on host buffers for long: a rank of any node that passed device buffers in
 * it, or -1 as long as none is known. Ranks of other nodes then learn of this one. To be asked again and again, by any
 * thread; never waits.
 */
int mscclpp_team_find_device_rank(mscclpp_team_t *team, uint64_t call);

#endif
