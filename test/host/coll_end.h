/* One rank's end of a team that calls collectives of every kind. */
#ifndef TEST_HOST_COLL_END_H
#define TEST_HOST_COLL_END_H

#include "mca/common/task/collective.h"
#include "test/host/coll_case.h"

#define COLL_END_SCRATCH ((size_t)1 << 20) /* bytes of scratch that coll_end_configure asks for */

/* The contents of all ranks' buffers before a call. */
typedef struct {
    unsigned char *in[RANKS_MAX];
    unsigned char *out[RANKS_MAX];
} coll_images_t;

/* Room for buffers of so many bytes. */
void coll_images_create(coll_images_t *images, int ranks, size_t bytes);
void coll_images_destroy(coll_images_t *images);

typedef struct {
    rank_t *rank;
    mscclpp_team_t *team;
    user_pool_t in_pool;
    user_pool_t out_pool;
    uint64_t call;
} coll_end_t;

/* How many calls over several nodes packets have served so far, of all ranks. Tiles serve the other calls. */
extern int coll_end_packets;
extern int coll_end_rounds; /* the same by packets in rounds */

/* Takes over the team. coll_end_close destroys it. */
void coll_end_open(coll_end_t *end, rank_t *rank, mscclpp_team_t *team, size_t bytes);
void coll_end_close(coll_end_t *end);

/*
 * Makes the call on buffers with the contents of this rank's images. Verifies the results, that nothing else has
 * changed, and which algorithm served. Prints a failure, and how to run the case again.
 */
bool coll_end_call(coll_end_t *end, const case_t *c, const coll_images_t *images);

/*
 * Settings of a case: its grid, its imitated nodes, and the algorithm that it asks for. Collectives end with an error
 * after `timeout` seconds.
 */
void coll_end_configure(mscclpp_config_t *config, const case_choice_t *choice, double timeout);

/* An all-reduce between other calls, because all of them share the memory of exchanges between nodes. */
void coll_end_all_reduce(coll_end_t *end, uint64_t seed);

#endif
