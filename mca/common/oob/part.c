#include "mca/common/oob/part.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

/* The number of bytes that one round carries for each rank. */
#define CHUNK_BYTES 2048u

/* The block that a rank contributes to a round. */
typedef struct {
    uint32_t is_done; /* the rank is done, and takes part only because other ranks need the round */
    uint32_t pad;
    unsigned char bytes[CHUNK_BYTES];
} block_t;

struct mscclpp_oob_part {
    const mscclpp_oob_t *whole;
    const mscclpp_nodes_t *nodes;
    mscclpp_status_t status; /* the error that made the exchange of all ranks unusable; MSCCLPP_OK: none */
    int refusals;            /* number of rounds that failed on all ranks because a rank lacked memory */
    block_t own_block;       /* this rank's block of the next round */
    block_t blocks[];        /* one block for each rank of the whole exchange */
};

/*
 * Runs one round: gathers part->own_block from all ranks into part->blocks. Returns the error of the all-gather. After
 * an error that makes the exchange unusable, no round is run, and the same error is returned again.
 */
static mscclpp_status_t run_round(mscclpp_oob_part_t *part)
{
    mscclpp_status_t status;

    if (part->status != MSCCLPP_OK) {
        return part->status;
    }
    status = part->whole->allgather(part->whole->context, &part->own_block, part->blocks, sizeof(part->own_block));
    /*
     * If a rank lacked memory for the round, the round failed on all ranks alike. So all ranks are still in the same
     * round, and the exchange may continue. After a second such failure the exchange is given up, because that rank
     * will probably continue to lack memory.
     */
    if (status != MSCCLPP_OK && (status != MSCCLPP_ERR_NOT_SUPPORTED || ++part->refusals > 1)) {
        part->status = status;
    }
    return status;
}

/* Gathers among the ranks of the node, for a runtime that has an all-gather among selected ranks. */
static mscclpp_status_t allgather_among(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    const mscclpp_oob_part_t *part = context;

    return part->whole->allgather_among(part->whole->context, part->nodes->members, part->nodes->size, sendbuf, recvbuf,
                                        length);
}

/*
 * Gathers the messages of all ranks of the node. Takes as many rounds as the length needs, but at least one. Returns
 * MSCCLPP_ERR_PEER if a rank of the node has finished. Returns MSCCLPP_ERR_NOT_SUPPORTED if this rank passes NULL as
 * `recvbuf`, because it lacks memory; the other ranks of the node then get MSCCLPP_ERR_PEER. If one rank of the node
 * returns an error, all of them do.
 */
static mscclpp_status_t allgather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    mscclpp_oob_part_t *part = context;
    mscclpp_status_t status;
    size_t offset = 0, size;
    int i;

    if (recvbuf == NULL) {
        memset(&part->own_block, 0, sizeof(part->own_block));
        part->own_block.is_done = 1;
        status = run_round(part);
        return status == MSCCLPP_OK ? MSCCLPP_ERR_NOT_SUPPORTED : status;
    }

    do {
        size = length - offset < CHUNK_BYTES ? length - offset : CHUNK_BYTES;
        part->own_block.is_done = 0;
        memcpy(part->own_block.bytes, (const char *)sendbuf + offset, size);
        status = run_round(part);
        for (i = 0; i < part->nodes->size && status == MSCCLPP_OK; ++i) {
            const block_t *block = &part->blocks[part->nodes->members[i]];

            if (block->is_done) {
                mscclpp_info("%s: rank %d has given up", part->whole->label, part->nodes->members[i]);
                status = MSCCLPP_ERR_PEER;
            } else {
                memcpy((char *)recvbuf + (size_t)i * length + offset, block->bytes, size);
            }
        }
        offset += size;
    } while (offset < length && status == MSCCLPP_OK);
    return status;
}

/* Makes the progress of the exchange of all ranks. */
static void progress(void *context)
{
    const mscclpp_oob_part_t *part = context;

    part->whole->progress(part->whole->context);
}

/* Makes the check of the exchange of all ranks. */
static mscclpp_status_t check(void *context)
{
    const mscclpp_oob_part_t *part = context;

    return part->whole->check(part->whole->context);
}

/* Memory for a block of each rank is needed only if every round is an all-gather of all ranks. */
mscclpp_oob_part_t *mscclpp_oob_part_create(const mscclpp_oob_t *whole)
{
    const size_t block_count = whole->allgather_among != NULL ? 0 : (size_t)whole->size;
    mscclpp_oob_part_t *part = calloc(1, sizeof(*part) + block_count * sizeof(part->blocks[0]));

    if (part == NULL) {
        mscclpp_error("%s: no memory for the exchange among %d ranks", whole->label, whole->size);
        return NULL;
    }
    part->whole = whole;
    return part;
}

/* The part is the context of the table's functions. */
void mscclpp_oob_part_table(mscclpp_oob_part_t *part, const mscclpp_nodes_t *nodes, mscclpp_oob_t *table_p)
{
    part->nodes = nodes;
    memset(table_p, 0, sizeof(*table_p));
    table_p->context = part;
    table_p->rank = part->nodes->rank;
    table_p->size = part->nodes->size;
    table_p->label = part->whole->label;
    table_p->allgather = part->whole->allgather_among != NULL ? allgather_among : allgather;
    table_p->progress = progress;
    table_p->check = check;
}

/*
 * If every round is an all-gather of all ranks, other nodes may need more rounds than this one. A round that failed
 * because a rank lacked memory is repeated, unless the exchange is given up for that reason (run_round). Returns
 * MSCCLPP_ERR_NOT_SUPPORTED if such a round has failed, or the error that made the exchange unusable; the all-gather
 * has logged both.
 */
mscclpp_status_t mscclpp_oob_part_finish(mscclpp_oob_part_t *part)
{
    bool all_done = part->whole->allgather_among != NULL;
    int i;

    memset(&part->own_block, 0, sizeof(part->own_block));
    part->own_block.is_done = 1;
    while (!all_done && part->status == MSCCLPP_OK) {
        all_done = run_round(part) == MSCCLPP_OK;
        for (i = 0; i < part->whole->size && all_done; ++i) {
            all_done = part->blocks[i].is_done;
        }
    }
    return part->status == MSCCLPP_OK && part->refusals > 0 ? MSCCLPP_ERR_NOT_SUPPORTED : part->status;
}

void mscclpp_oob_part_destroy(mscclpp_oob_part_t *part)
{
    free(part);
}
