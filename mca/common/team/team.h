/*
 * A team: the ranks of one communicator, with all resources that their kernels and hosts share. Ranks on one node map
 * each other's scratch. A fabric (mca/common/fabric/fabric.h) connects several nodes.
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
#include "mca/common/plan/library.h"
#include "mca/common/base/status.h"

typedef struct mscclpp_team mscclpp_team_t;

typedef struct {
    const mscclpp_config_t *config; /* copied; all ranks use rank 0's values of the parameters that must be equal */
    const mscclpp_config_t *user_config; /* the configuration that the user has set on this rank, for messages; NULL:
                                       same as `config` */
    const mscclpp_rules_t *rules;        /* NULL: there is no rules file; all ranks use rank 0's rules */
    mscclpp_plan_library_t *plans;       /* NULL: there are no plans; only plans that all ranks have are used */
    const mscclpp_gpu_ops_t *gpu;
    int device;      /* number of this rank's device; -1: this rank can use none */
    bool concurrent; /* other threads may have tasks of other teams in flight on the device */
    /*
     * Slots for kernels (group/admission.h); NULL: the slots of the process. If ranks are threads of one process and
     * make early calls, each rank needs its own object.
     */
    mscclpp_admission_t *admission;
    mscclpp_oob_t oob; /* copied; its context and label must outlive the team */
    bool own_process;  /* no other rank of the team, or of a team of this process, is in this process */
    bool reuse;        /* take over an ended team of the same ranks, if all ranks have it; see team/park.h */
    uint64_t members;  /* a digest of which processes the ranks are: what other processes have left is not offered */
    int leader;        /* the lowest rank that the caller knows to be on this node, which may be this rank */
    uint64_t job; /* the job of this rank: `leader` is about ranks of this job only, and ranks of other jobs on this
                     machine share the node, too */
} mscclpp_team_params_t;

/*
 * Destroys a team. Not collective: the function waits for no call of a peer, only for queued operations, up to the
 * deadline. The GPU runtime may also wait for running kernels. The team may be parked for reuse (park.h), and then
 * keeps all of its resources. Otherwise the mappings of the peers' memory are closed now. This rank's scratch is freed
 * once every peer has closed its mapping, in this call or in a later one for any team. NULL is allowed.
 */
void mscclpp_team_destroy(mscclpp_team_t *team);

/* Frees the resources that destroyed teams still have. Waits at most `seconds` for the peers. Must be the last call. */
void mscclpp_team_finalize(double seconds);

/* Returns true if the team has failed because of another rank, which has logged the failure. Returns false for NULL. */
bool mscclpp_team_peer_reports(const mscclpp_team_t *team);

/*
 * Returns true if the team's ranks are on several nodes. The caller must then call mscclpp_team_progress_all regularly.
 */
bool mscclpp_team_spans_nodes(const mscclpp_team_t *team);

/*
 * Makes progress on the teams that span nodes, since other ranks may depend on it. Any thread must call it regularly
 * while the process is in the embedding runtime for other reasons.
 */
void mscclpp_team_progress_all(void);

int mscclpp_team_rank(const mscclpp_team_t *team);
int mscclpp_team_size(const mscclpp_team_t *team);

/* Returns the name of the algorithm of the last call, for messages and reports; "none" before the first. */
const char *mscclpp_team_last_algorithm(const mscclpp_team_t *team);

/* Returns the number of operations that a lingering kernel served without a separate launch. */
uint64_t mscclpp_team_lingered(const mscclpp_team_t *team);

/*
 * Returns true if two-phase packets may be LL128 (device/lib/packet.h), because a trial has shown that all links
 * deliver lines of 128 bytes whole.
 */
bool mscclpp_team_keeps_lines(const mscclpp_team_t *team);

/* Returns true if the team has failed. It then serves no further call. */
bool mscclpp_team_broken(const mscclpp_team_t *team);

/*
 * Tells the peers which kind of buffers this rank passes in its next call, so that a mixture of host and device buffers
 * can be reported. `call` counts the calls of the communicator on this rank that kernels may serve, from 1. Takes a few
 * nanoseconds and never waits.
 */
void mscclpp_team_announce(mscclpp_team_t *team, uint64_t call, mscclpp_call_kind_t kind);

/* Returns the lowest rank of this node that announced `kind` for call `call`, or -1. */
int mscclpp_team_find_announced(const mscclpp_team_t *team, uint64_t call, mscclpp_call_kind_t kind);

/*
 * Decides for all ranks of this node whether call `call`, of a collective other than all-reduce, is served as a call on
 * device buffers. The first rank that arrives decides, by the kind of its own buffers (`on_device`), and the others
 * follow it. So ranks that pass different kinds of memory, as a root and its peers may, take the same path. Returns the
 * decision.
 */
bool mscclpp_team_decide(mscclpp_team_t *team, uint64_t call, bool on_device);

/* Returns true if a rank has decided how call `call` is served. *on_device_p is then the decision. */
bool mscclpp_team_is_decided(const mscclpp_team_t *team, uint64_t call, bool *on_device_p);

/*
 * For a wait before call `call` that is not for this team's ranks alone, such as an agreement of all ranks.
 * mscclpp_team_begin_signs begins it, mscclpp_team_give_signs is called again and again while it lasts, and
 * mscclpp_team_end_signs ends it. So other ranks learn that this one lives, and this one that they do: see
 * mca/common/group/signs.c. Called by the thread that makes the call. mscclpp_team_give_signs returns MSCCLPP_ERR_PEER,
 * which is logged as information, if another rank has failed in the call or before and has told all.
 */
void mscclpp_team_begin_signs(mscclpp_team_t *team);
mscclpp_status_t mscclpp_team_give_signs(mscclpp_team_t *team, uint64_t call);
void mscclpp_team_end_signs(mscclpp_team_t *team);

/*
 * Returns true while some rank of this node has not reached call `call` and no rank has announced the kind of its
 * buffers. A rank asks this if it passes no buffer in the call.
 */
bool mscclpp_team_awaits_announcements(const mscclpp_team_t *team, uint64_t call);

/*
 * Returns a rank of any node that passed device buffers in call `call`, or -1 while none is known. A rank that has been
 * in the call on host buffers for a long time calls it repeatedly. If the other rank is known from a notice, tells all
 * ranks that this rank passed host buffers. Thread-safe; never waits.
 */
int mscclpp_team_find_device_rank(mscclpp_team_t *team, uint64_t call);

#endif
