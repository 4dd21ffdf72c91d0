#include "mca/common/oob/part.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

/* Bytes that one round carries for each rank. */
#define CHUNK_BYTES 2048u

/* What a rank contributes to a round. */
typedef struct {
    uint32_t is_done; /* the rank takes part only for the others' sake */
    uint32_t pad;
    unsigned char bytes[CHUNK_BYTES];
} block_t;

struct mscclpp_oob_part {
    const mscclpp_oob_t *whole;
    const mscclpp_nodes_t *nodes;
    mscclpp_status_t status; /* the error after which the exchange of all ranks can no longer be used */
    int refusals;            /* number of rounds that failed on all ranks because one lacked memory */
    block_t own;             /* this rank's block of the next round */
    block_t blocks[];        /* one block for each rank of the whole exchange */
};

/*
 * Runs one round: an all-gather of all ranks, each of which contributes its block. Once the exchange can no longer be
 * used, runs none and returns the error.
 */
static mscclpp_status_t run_round(mscclpp_oob_part_t *part)
{
    mscclpp_status_t status;

    if (part->status != MSCCLPP_OK) {
        return part->status;
    }
    status = part->whole->allgather(part->whole->context, &part->own, part->blocks, sizeof(part->own));
    /*
     * If a rank lacked memory for the round, it failed on all ranks alike, so they are still in step and may go on.
     * After a second such failure the exchange is given up, because that rank will probably stay without memory.
     */
    if (status != MSCCLPP_OK && (status != MSCCLPP_ERR_NOT_SUPPORTED || ++part->refusals > 1)) {
        part->status = status;
    }
    return status;
}

/* Gathers among the node's ranks, if the exchange can be made among some ranks alone. */
static mscclpp_status_t allgather_among(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    const mscclpp_oob_part_t *part = context;

    return part->whole->allgather_among(part->whole->context, part->nodes->members, part->nodes->size, sendbuf, recvbuf,
                                        length);
}

/*
 * Gathers among the node's ranks, in as many rounds as its length takes, but at least one. MSCCLPP_ERR_PEER if a rank
 * of the node has finished, or has no memory for what it receives; else fails as the round does. All ranks of the node
 * return an error if one does.
 */
static mscclpp_status_t allgather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    mscclpp_oob_part_t *part = context;
    mscclpp_status_t status;
    size_t offset = 0, size;
    int i;

    if (recvbuf == NULL) {
        memset(&part->own, 0, sizeof(part->own));
        part->own.is_done = 1;
        status = run_round(part);
        return status == MSCCLPP_OK ? MSCCLPP_ERR_NOT_SUPPORTED : status;
    }

    do {
        size = length - offset < CHUNK_BYTES ? length - offset : CHUNK_BYTES;
        part->own.is_done = 0;
        memcpy(part->own.bytes, (const char *)sendbuf + offset, size);
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

static void progress(void *context)
{
    const mscclpp_oob_part_t *part = context;

    part->whole->progress(part->whole->context);
}

static mscclpp_status_t check(void *context)
{
    const mscclpp_oob_part_t *part = context;

    return part->whole->check(part->whole->context);
}

/* Makes the exchange. It needs blocks only where every round is one of all ranks. */
mscclpp_oob_part_t *mscclpp_oob_part_create(const mscclpp_oob_t *whole)
{
    const size_t blocks = whole->allgather_among != NULL ? 0 : (size_t)whole->size;
    mscclpp_oob_part_t *part = calloc(1, sizeof(*part) + blocks * sizeof(part->blocks[0]));

    if (part == NULL) {
        mscclpp_error("%s: no memory for the exchange among %d ranks", whole->label, whole->size);
        return NULL;
    }
    part->whole = whole;
    return part;
}

/*
 * Fills in a table for the ranks of the node. The part is the context of its functions, so it must outlive the table.
 */
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
 * Where every round is one of all ranks, other nodes may need more: takes part until all ranks are done. A round that
 * failed for lack of memory is repeated, unless the exchange is given up for that (run_round).
 */
mscclpp_status_t mscclpp_oob_part_finish(mscclpp_oob_part_t *part)
{
    bool all_done = part->whole->allgather_among != NULL;
    int i;

    memset(&part->own, 0, sizeof(part->own));
    part->own.is_done = 1;
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
