/*
 * A team's board: shared memory through which the hosts of a node's ranks communicate. Ranks announce their calls
 * there, exchange handles of user buffers, vote, report failures, and tell when they have closed their mappings. Each
 * rank has one line, and writes only that line, except for `decided`, `logged`, `exchanged`, `pledges` and `recall`.
 * Every word is stored with release order and loaded with acquire order. So a rank that sees a number also sees what
 * its writer stored before, such as the handles of that exchange.
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

/*
 * How the blocks of a rank are laid out in its buffer. NO_RUNS: some block does not consist of runs of equal length at
 * equal distances. HOLES: all blocks consist of such runs, with holes between the runs. DENSE: all blocks consist of
 * such runs, without holes.
 */
enum { MSCCLPP_BOARD_NO_RUNS, MSCCLPP_BOARD_HOLES, MSCCLPP_BOARD_DENSE };

/* The arguments of a call that must be equal on all ranks, packed into one word. */
typedef uint64_t mscclpp_board_args_t;

/*
 * Packs the arguments. `bytes` is 0 if ranks pass different sizes, and `root` is 0 if the collective has none. The word
 * keeps the root modulo 4,096 and the size modulo 64 GiB.
 */
static inline mscclpp_board_args_t mscclpp_board_pack_args(mscclpp_coll_t coll, int root, uint64_t bytes,
                                                           mscclpp_dtype_t dtype, mscclpp_op_t op)
{
    return bytes << 28 | ((uint64_t)root & 4095) << 16 | (uint64_t)coll << 10 | (uint64_t)dtype << 4 | (uint64_t)op;
}

/* Each of these unpacks one argument. */
#define MSCCLPP_BOARD_ARGS_BYTES(args_) ((args_) >> 28)
#define MSCCLPP_BOARD_ARGS_ROOT(args_) ((int)((args_) >> 16 & 4095))
#define MSCCLPP_BOARD_ARGS_COLL(args_) ((mscclpp_coll_t)((args_) >> 10 & 63))
#define MSCCLPP_BOARD_ARGS_DTYPE(args_) ((unsigned)((args_) >> 4 & 63))
#define MSCCLPP_BOARD_ARGS_OP(args_) ((unsigned)((args_)&15))

/*
 * MSCCLPP_BOARD_SIZES packs the word `sizes`: the size in bytes of the largest block that the rank sends or receives,
 * and the layout of the rank's blocks, MSCCLPP_BOARD_NO_RUNS, _HOLES or _DENSE. The other two macros unpack the word.
 */
#define MSCCLPP_BOARD_SIZES(largest_, layout_) ((uint64_t)(largest_) << 2 | (uint64_t)(layout_))
#define MSCCLPP_BOARD_LARGEST(sizes_) ((sizes_) >> 2)
#define MSCCLPP_BOARD_LAYOUT(sizes_) ((unsigned)((sizes_)&3))

/* One rank's user buffers of a call. */
typedef struct {
    mscclpp_board_args_t call_args;
    mscclpp_gpu_handle_t in;
    mscclpp_gpu_handle_t out;
    uint32_t exportable; /* 0: the handles are not valid, and the call goes through the scratch */
    uint32_t in_place;   /* `out` is the same allocation and offset as `in` */
    uint32_t has_in;     /* 0 if no peer uses this rank's `in` */
    uint32_t has_out;    /* 0 if no peer uses this rank's `out` */
    uint64_t epochs;     /* if the rank has a larger scratch: the maximum flag of the packets in it */
} mscclpp_board_buffers_t;

/* The factor of the call's number in the word that reports a failed call. It is larger than every negated status. */
#define MSCCLPP_BOARD_FAILURE_BASE 256

/* Begins a cache line, so that a word that one rank writes does not delay the words of another rank. */
#define MSCCLPP_BOARD_ALIGNED __attribute__((aligned(64)))

/*
 * One rank's line on the board. It has two sets of handles of user buffers, which consecutive exchanges use in turn. So
 * a rank never writes a set while a peer reads it:
 *
 * 1. A peer publishes exchange k + 1 only after it has read all handles of exchange k.
 * 2. A rank fills in its set for exchange k + 2 only after all ranks have published exchange k + 1.
 *
 * The same holds for `sizes`.
 */
typedef struct {
    /* What this rank alone writes, in each call or in each exchange of sizes: peers get all of it at once. */
    uint64_t call; /* the current call, as mscclpp_group_call_word describes it */
    /*
     * The arguments of the current call, if it is on device buffers, are at index `call % 2`. The other element has the
     * arguments of the previous call: a rank that waits in a call compares arguments with peers that may already be in
     * the next call.
     */
    mscclpp_board_args_t call_args[2];
    uint64_t published; /* the last exchange whose handles or sizes are published */
    uint64_t sizes[2];  /* by `published % 2`: the largest block of this rank and its layout, MSCCLPP_BOARD_SIZES */
    uint64_t voted;     /* 2 * the last exchange that this rank voted on, + 1 for yes */
    uint64_t met;       /* the last meeting of the hosts to which this rank has come */

    /*
     * The last call that was decided to be on device or host buffers, in the same format as `call`; see
     * mscclpp_team_decide. Only the word in rank 0's line is used, and any rank writes it.
     */
    MSCCLPP_BOARD_ALIGNED uint64_t decided;
    /*
     * 1 + the number of the last call for which a rank has logged the warning (index 0), and the error (index 1); see
     * mscclpp_group_claims_line. Only the words in rank 0's line are used, and any rank writes them.
     */
    uint64_t logged[2];
    /*
     * For exchanges with a deadline: 2 * the number of the last exchange that has ended, + 1 if all ranks have voted in
     * time. After an exchange without all votes, there are no more. Only the word in rank 0's line is used, and any
     * rank writes it.
     */
    uint64_t exchanged;
    uint64_t recall; /* only the word in rank 0's line is used, and any rank writes it: see mca/common/team/lease.h */

    /* 2 * the last meeting before a launch, + 1 if this rank needs no slot or has pledged it; see group/meeting.c */
    MSCCLPP_BOARD_ALIGNED uint64_t arrived;
    /*
     * For a meeting before a launch on mapped buffers: the number of the exchange in which this rank passed the same
     * buffers, or 0; see mca/common/run/known.c. Consecutive meetings use the two words in turn.
     */
    uint64_t known[2];
    uint64_t pledges; /* only the word in rank 0's line is used, and any rank writes it: see mscclpp_admission_pledge */
    uint64_t slot_vote[2]; /* 2 * the last vote on slots, + 1 if this rank has a slot; see group/meeting.c */
    uint64_t node_vote;    /* rank 0's line: 2 * the last vote of all nodes, + 1 if all said yes; see group/meeting.c */
    uint64_t told; /* 0, or 1 + the number of the call that this rank has ended because a peer told it of a failure;
                      see mscclpp_group_fail */

    MSCCLPP_BOARD_ALIGNED uint64_t failure; /* 0, or MSCCLPP_BOARD_FAILURE_BASE * the number of the failed call + its
                                               negated status */
    uint64_t blamed;   /* 0, or 1 + the rank of the communicator that this rank blames (mscclpp_group_blame) */
    uint64_t closed;   /* 1 once this rank has closed all mappings of its peers' memory */
    uint64_t absent;   /* ranks of other nodes that have sent nothing in the current call: mscclpp_board_add_absent */
    uint64_t waits_in; /* the call in which this rank waits and gives signs of life (signs.c), as
                          mscclpp_group_call_word describes it; 0: this rank gives no signs */
    uint64_t sign;     /* changes every millisecond while `waits_in` is not 0 */
    uint64_t lease_begun; /* the last use of leased scratch that this rank has begun */
    uint64_t lease_ended; /* the last use of leased scratch that this rank has ended */
    /* Numbers of chunks in all calls by copy engines so far; see mca/common/engine/engine.h. */
    struct {
        uint64_t sent;     /* operand chunks that this rank's engines have delivered to all peers */
        uint64_t reduced;  /* chunks of this rank's shards that are reduced */
        uint64_t returned; /* result chunks delivered to all peers; updated at the end of a call */
    } engine;
    mscclpp_board_buffers_t buffers[2];
} MSCCLPP_BOARD_ALIGNED mscclpp_board_line_t;

/*
 * Returns the size in bytes of a board for `ranks` ranks. The lines of the ranks are followed by two sets of lists,
 * which consecutive exchanges use in turn. A set has a list for each rank. The list says where in its output the rank
 * wants the block of each peer.
 */
static inline size_t mscclpp_board_size(int ranks)
{
    return (size_t)ranks * sizeof(mscclpp_board_line_t) +
           2 * (size_t)ranks * (size_t)ranks * sizeof(mscclpp_dev_runs_t);
}

/*
 * A small set of ranks in one word, for messages about absent ranks. It holds the first three ranks that were added,
 * each as its number plus 1, and a bit that says whether there are more. Messages name no more ranks than
 * that. So a line of the board has one size, however many ranks the communicator has.
 */
#define MSCCLPP_BOARD_ABSENT_MAX 3
#define MSCCLPP_BOARD_ABSENT_BITS 21
#define MSCCLPP_BOARD_ABSENT_MORE (UINT64_C(1) << 63)

/* Returns the set with `rank` added. `rank` must not be in the set already. */
static inline uint64_t mscclpp_board_add_absent(uint64_t absent_set, int rank)
{
    int i;

    for (i = 0; i < MSCCLPP_BOARD_ABSENT_MAX; ++i) {
        const int shift = i * MSCCLPP_BOARD_ABSENT_BITS;

        if ((absent_set >> shift & ((UINT64_C(1) << MSCCLPP_BOARD_ABSENT_BITS) - 1)) == 0) {
            return absent_set | ((uint64_t)rank + 1) << shift;
        }
    }
    return absent_set | MSCCLPP_BOARD_ABSENT_MORE;
}

/* Returns the rank at an index below MSCCLPP_BOARD_ABSENT_MAX, or -1 if the set has fewer ranks. */
static inline int mscclpp_board_absent_rank(uint64_t absent_set, int index)
{
    return (int)(absent_set >> index * MSCCLPP_BOARD_ABSENT_BITS & ((UINT64_C(1) << MSCCLPP_BOARD_ABSENT_BITS) - 1)) -
           1;
}

/* Returns the list of `rank` in exchange number `exchange`. The list has an entry for each peer. */
static inline mscclpp_dev_runs_t *mscclpp_board_places(mscclpp_board_line_t *lines, int ranks, uint64_t exchange,
                                                       int rank)
{
    mscclpp_dev_runs_t *first = (mscclpp_dev_runs_t *)(void *)(lines + ranks);

    return first + ((size_t)(exchange % 2) * (size_t)ranks + (size_t)rank) * (size_t)ranks;
}

/*
 * mscclpp_board_load reads a word of the board with acquire order, and mscclpp_board_store writes one with release
 * order. So a rank that sees a word also sees all that the word's writer stored on the board before.
 */
static inline uint64_t mscclpp_board_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void mscclpp_board_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

#endif
