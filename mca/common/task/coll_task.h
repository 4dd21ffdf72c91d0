/* What the files that carry out one call of a collective other than all-reduce share. */
#ifndef MCA_COMMON_TASK_COLL_TASK_H
#define MCA_COMMON_TASK_COLL_TASK_H

#include "mca/common/algo/coll.h"
#include "mca/common/team/parts.h"

/*
 * One call. `in` and `out` are what kernels and engines use: the caller's buffers, or device memory in their place.
 * Ranks are numbered as the communicator numbers them, which on one node is how the node does.
 */
typedef struct {
    mscclpp_team_t *team;
    const mscclpp_coll_args_t *args;
    mscclpp_dev_pattern_t pattern;
    int rank;
    int ranks;
    int root;
    bool strided;    /* agreed by all ranks: blocks with holes are moved as they lie */
    bool in_place;   /* the own block lies in the output, where it is to be */
    uint64_t bytes;  /* of one block where all are of one size */
    uint64_t stride; /* from one of them to the next */
    uint64_t most;   /* bytes of the largest block of all ranks */
    const char *in;
    char *out;
    void *in_stand_in; /* NULL: none */
    void *out_stand_in;
    mscclpp_dev_release_t release; /* of kernels that write to this rank's output alone */
    bool in_far;                   /* kernels cannot touch the user's input */
    bool out_far;                  /* kernels cannot touch the user's output */
    mscclpp_gpu_stream_t *stream;  /* the team's, once something needs it */
    mscclpp_coll_choice_t choice;

    /* Of an exchange: the buffers of all ranks as this one sees them, NULL where a rank has told of none. */
    char *peer_in[MSCCLPP_DEV_MAX_RANKS];
    char *peer_out[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_runs_t place[MSCCLPP_DEV_MAX_RANKS]; /* where in each rank's output this rank's block belongs */
} mscclpp_coll_task_t;

/* coll_blocks.c: what this rank has for a peer, and where that of a peer goes: device/kern/coll/blocks.h, on the host.
 */
mscclpp_dev_block_t mscclpp_coll_send_block(const mscclpp_coll_task_t *task, int peer);
mscclpp_dev_block_t mscclpp_coll_recv_block(const mscclpp_coll_task_t *task, int peer);

/* Bytes of what the blocks of this rank combine to; 0: the rank gets no result. */
uint64_t mscclpp_coll_result_bytes(const mscclpp_coll_task_t *task);

/* The bytes from a buffer's beginning to the end of the last block that is there; 0: nobody looks at it. */
uint64_t mscclpp_coll_span(const mscclpp_coll_task_t *task, bool input);

/* The `index`-th of `count` parts of so many bytes: whole units, but for the last. */
mscclpp_dev_block_t mscclpp_coll_part(uint64_t bytes, int index, int count);

/*
 * coll_exchange.c: yields the size of the largest block of all ranks, of which each knows its own, and whether all of
 * them can move blocks with holes as they lie.
 */
mscclpp_status_t mscclpp_coll_agree_size(mscclpp_coll_task_t *task);

/* Maps the buffers that peers use. *mapped_p is agreed by all: false if any buffer cannot be mapped. */
mscclpp_status_t mscclpp_coll_exchange(mscclpp_coll_task_t *task, bool *mapped_p);

/* All ranks have come so far. */
mscclpp_status_t mscclpp_coll_meet(mscclpp_coll_task_t *task, const char *what);

/*
 * coll_pack.c: packs data with holes, or with `unpack` puts it back, in the team's stream. `far`: kernels cannot touch
 * the user's buffer.
 */
mscclpp_status_t mscclpp_coll_pack(mscclpp_coll_task_t *task, const mscclpp_coll_pack_t *packs, size_t count,
                                   char *packed, bool unpack, bool far);

/* coll_direct.c: the lists of addresses of this rank's kernel or engines, of buffers that have been exchanged. */
void mscclpp_coll_fill_direct(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct);

/* The same for blocks with holes. */
void mscclpp_coll_fill_strided(const mscclpp_coll_task_t *task, mscclpp_dev_strided_args_t *strided);

/* coll_engines.c: moves the blocks by copy engines, of buffers that have been exchanged, and waits for all ranks. */
mscclpp_status_t mscclpp_coll_run_engines(mscclpp_coll_task_t *task);

#endif
