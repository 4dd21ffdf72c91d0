/*
 * A team's board: node-shared memory in which the hosts of its ranks tell one another what they are about to
 * do, exchange handles of user buffers, vote, report failures and count who has let go. One line a rank, written by
 * that rank alone; every word is published with release and read with acquire.
 */
#ifndef MCA_COMMON_GROUP_BOARD_H
#define MCA_COMMON_GROUP_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/coll.h"
#include "device/types/dtype.h"
#include "mca/common/base/colls.h"
#include "mca/common/base/shmseg.h"
#include "mca/common/gpu/gpu.h"

/* Of the blocks of a rank: not all are runs of one length and distance each; or they are, with holes or without. */
enum { MSCCLPP_CONTROL_NO_RUNS, MSCCLPP_CONTROL_HOLES, MSCCLPP_CONTROL_DENSE };

/* What a rank asks of a call, which has to be equal on all ranks, in one word. */
typedef uint64_t mscclpp_board_asked_t;

/* `bytes` 0: ranks have different ones. `root` 0 where there is none. */
static inline mscclpp_board_asked_t mscclpp_board_ask(mscclpp_coll_t coll, int root, uint64_t bytes,
                                                      mscclpp_dtype_t dtype, mscclpp_op_t op)
{
    return bytes << 24 | (uint64_t)root << 16 | (uint64_t)coll << 10 | (uint64_t)dtype << 4 | (uint64_t)op;
}

#define MSCCLPP_CONTROL_ASKED_BYTES(asked_) ((asked_) >> 24)
#define MSCCLPP_CONTROL_ASKED_ROOT(asked_) ((int)((asked_) >> 16 & 255))
#define MSCCLPP_CONTROL_ASKED_COLL(asked_) ((mscclpp_coll_t)((asked_) >> 10 & 63))
#define MSCCLPP_CONTROL_ASKED_DTYPE(asked_) ((unsigned)((asked_) >> 4 & 63))
#define MSCCLPP_CONTROL_ASKED_OP(asked_) ((unsigned)((asked_)&15))

/* The user buffers of one call. */
typedef struct {
    mscclpp_board_asked_t asked;
    mscclpp_gpu_handle_t in;
    mscclpp_gpu_handle_t out;
    uint32_t exportable; /* 0: the handles mean nothing, and the call goes through the scratch */
    uint32_t in_place;   /* `out` is the same allocation and offset as `in` */
    uint32_t has_in;     /* of collectives other than all-reduce: 0 if the rank lets nobody use its `in` */
    uint32_t has_out;    /* likewise */
    uint64_t most;       /* bytes of the largest block that the rank sends or receives */
    uint32_t strided;    /* MSCCLPP_CONTROL_NO_RUNS and so on */
} mscclpp_board_buffers_t;

/*
 * The handles of two exchanges alternate. A rank publishes exchange k + 1 only after it has seen every vote on k, and a
 * peer votes on k only after it has read all handles of k, so no set is written while somebody reads it.
 */
typedef struct {
    uint64_t call; /* number of the call in hand, times 4, plus mscclpp_call_kind_t */
    /*
     * Of that call, if it is one on device buffers, and in the other one of the call before: who waits in a call looks
     * at peers that may be in the next one already.
     */
    mscclpp_board_asked_t asked[2];
    /*
     * Of rank 0's line alone, and written by any: number and kind, as in `call`, of the last call whose way somebody
     * has decided; see mscclpp_team_decide.
     */
    uint64_t decided;
    uint64_t published; /* the last exchange whose handles are there */
    uint64_t voted;     /* the last exchange voted on, times 2, plus 1 for yes */
    uint64_t failure;   /* 0, or call number times 256 plus the negated status of the failed call */
    uint64_t closed;    /* 1 once this rank holds no mapping of its peers any more */
    uint64_t arrived; /* 2 * the last meeting after which a launch is all that is left to do, + 1 if it needs no room */
    uint64_t room[2]; /* 2 * the last step of finding room, + 1 for room; see group/meeting.c */
    uint64_t met;     /* meetings of the hosts so far */
    uint64_t absent;  /* ranks of other nodes that the call in hand has heard nothing from, one bit each */
    /* Chunks of all calls by copy engines so far; see engine.h. */
    struct {
        uint64_t sent;     /* operands of this rank, with which its engines have reached all peers */
        uint64_t reduced;  /* of the own shards */
        uint64_t returned; /* results, likewise; said at the end of a call */
    } engine;
    mscclpp_board_buffers_t buffers[2];
} __attribute__((aligned(64))) mscclpp_board_line_t;

/*
 * Behind the lines of n ranks lie, for either of two exchanges, n lists of n blocks: where in its output each rank
 * wants the block of each other one.
 */
static inline size_t mscclpp_board_size(int ranks)
{
    return (size_t)ranks * sizeof(mscclpp_board_line_t) +
           2 * (size_t)ranks * (size_t)ranks * sizeof(mscclpp_dev_runs_t);
}

/* The list of `rank` in exchange number `exchange`. */
static inline mscclpp_dev_runs_t *mscclpp_board_places(mscclpp_board_line_t *lines, int ranks, uint64_t exchange,
                                                       int rank)
{
    mscclpp_dev_runs_t *first = (mscclpp_dev_runs_t *)(void *)(lines + ranks);

    return first + ((size_t)(exchange % 2) * (size_t)ranks + (size_t)rank) * (size_t)ranks;
}

static inline uint64_t mscclpp_board_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void mscclpp_board_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

#endif
