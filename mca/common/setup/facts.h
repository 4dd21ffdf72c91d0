/*
 * The facts that each rank of a node sends to all others at set-up, and functions that evaluate the facts of all ranks.
 */
#ifndef MCA_COMMON_SETUP_FACTS_H
#define MCA_COMMON_SETUP_FACTS_H

#include "mca/common/team/parts.h"

/* This number must change whenever the data that ranks exchange changes, in memory or in messages. */
#define MSCCLPP_FACTS_VERSION 15u

/* The facts of one rank, which are sent as plain bytes. */
typedef struct {
    uint32_t version;
    uint32_t ready;                            /* the sender has created all objects of its own */
    uint64_t team_id;                          /* a random number; that of rank 0 becomes the number of the team */
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE]; /* UUID of the sender's GPU */
    uint64_t server;                           /* MPS server of the sender's GPU, as in mscclpp_gpu_info_t */
    uint32_t on_twin;
    uint32_t concurrent;               /* kernels of other threads may wait for kernels of this team, or delay them */
    uint32_t blocking;                 /* launches wait for kernels to end */
    uint32_t sm_count;                 /* number of multiprocessors of the GPU */
    uint32_t users;                    /* number of processes of any team on the same GPU that the sender knows */
    uint32_t strangers;                /* number of these processes that use another server */
    uint32_t plans;                    /* the sender has been given execution plans */
    uint32_t reserved;                 /* always 0 */
    uint64_t protocol_digest;          /* digest of the sender's protocol, which is larger than this structure */
    mscclpp_gpu_handle_t scratch;      /* the sender's scratch, for its peers to map */
    mscclpp_shmseg_descriptor_t board; /* only the descriptor of rank 0 is used */
    uint64_t address_length;           /* length of the address below in bytes; 0: the sender has no control messages */
    unsigned char address[MSCCLPP_CTRL_ADDRESS_MAX];
} mscclpp_facts_t;

/* Fills in the settings that all ranks take from rank 0, from this rank's configuration. */
void mscclpp_facts_fill_protocol(mscclpp_protocol_t *protocol, const mscclpp_config_t *config);

/*
 * Returns a number for a team that no other team has. `unlike` is an address that no other team has at the same time.
 */
uint64_t mscclpp_facts_new_id(const void *unlike);

/* Returns a digest of all bytes of a protocol. Padding counts, so digests of equal protocols may differ. */
uint64_t mscclpp_facts_digest(const mscclpp_protocol_t *protocol);

/*
 * Replaces a rank's protocol by the protocol of rank 0, which applies to all ranks. Protocols are exchanged only if
 * digests differ. `digests` points to the digest of the first rank; the digests of the others follow at distances of
 * `stride` bytes. Collective. Returns the error of the exchange, which is equal on all ranks.
 */
mscclpp_status_t mscclpp_facts_share_protocol(const mscclpp_oob_t *oob, const uint64_t *digests, size_t stride,
                                              mscclpp_protocol_t *protocol);

/* Logs a warning if this rank's rules, in `own_protocol`, differ from the rules that apply, in `common_protocol`. */
void mscclpp_facts_compare_rules(const mscclpp_team_t *team, const mscclpp_protocol_t *own_protocol,
                                 const mscclpp_protocol_t *common_protocol);

/* In all functions below, `facts` has one entry for each rank of the team, so all ranks get the same results. */

/*
 * Returns true if all ranks are ready, run the same version, and all use GPUs or all the twin. Otherwise every rank
 * logs the first rank that does not fit. `own_status` is this rank's own error, for its message about a shortage.
 */
bool mscclpp_facts_check(const mscclpp_team_t *team, const mscclpp_facts_t *facts, mscclpp_status_t own_status);

/* Returns the number of ranks of the team that use the same GPU as `rank`, including `rank`. */
uint32_t mscclpp_facts_ranks_on_gpu(const mscclpp_team_t *team, const mscclpp_facts_t *facts, int rank);

/* Returns true if any rank shares its GPU, with another rank or with a process of another team. */
bool mscclpp_facts_share_gpu(const mscclpp_team_t *team, const mscclpp_facts_t *facts);

/*
 * Returns true if processes share a GPU without a common MPS server, so that their kernels may not run at the same
 * time.
 */
bool mscclpp_facts_take_turns(const mscclpp_team_t *team, const mscclpp_facts_t *facts);

/*
 * Returns the number of blocks that every GPU of the team is guaranteed to run at once; 0 on the twin, which has no
 * limit. It assumes the worst case, in which a block takes a whole multiprocessor. In a larger grid, running blocks
 * could wait for blocks that cannot start. Ranks on one GPU get equal parts of its multiprocessors. If the team is on
 * one node (`is_whole`), processes outside the team get such parts, too. Otherwise these processes may be ranks of
 * other nodes, and align.c counts them.
 */
uint32_t mscclpp_facts_block_limit(const mscclpp_team_t *team, const mscclpp_facts_t *facts, bool is_whole);

/* Returns true if, on some rank, kernels of other threads may wait for kernels of the team, or delay them. */
bool mscclpp_facts_any_concurrent(const mscclpp_team_t *team, const mscclpp_facts_t *facts);

/* Returns true if some rank has been given execution plans. */
bool mscclpp_facts_any_plans(const mscclpp_team_t *team, const mscclpp_facts_t *facts);

/* Returns true if, on some rank, launches wait for kernels to end. */
bool mscclpp_facts_any_blocking(const mscclpp_team_t *team, const mscclpp_facts_t *facts);

#endif
