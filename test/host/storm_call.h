/* A call of a storm of collectives (test_coll_storm.c): its blocks, and what they have to hold. */
#ifndef TEST_HOST_STORM_CALL_H
#define TEST_HOST_STORM_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/algo/coll.h"
#include "test/host/coll_end.h"

typedef struct {
    coll_end_t end;
    int32_t *in;
    int32_t *out;
    mscclpp_coll_t coll;
    int root;
    int count;         /* integers of each block, or of the largest one */
    bool varied;       /* the blocks differ in size */
    uint64_t distance; /* and begin so many bytes behind the addresses of the buffers */
    bool lists; /* of the calls that move blocks, or that scatter a result, some have blocks that differ in size */
    mscclpp_dev_block_t send[RANKS_MAX];
    mscclpp_dev_block_t recv[RANKS_MAX];
} storm_t;

/*
 * Returns element `i` of the block of rank `from` for rank `to`. In collectives where a rank has one block for all
 * ranks, `to` is 0.
 */
int32_t storm_value(const storm_t *storm, int from, int to, int i);

/*
 * Stores element `i` that block `b` of the rank's output has to hold in *value_p. Returns false if the call must leave
 * the element as it is.
 */
bool storm_expect(const storm_t *storm, int b, int i, int32_t *value_p);

/*
 * Lists the blocks of this rank in `args`. They lie as far from one another as if all had the largest one's size. A
 * result lies where the output begins.
 */
void storm_list_blocks(storm_t *storm, mscclpp_coll_args_t *args);

#endif
