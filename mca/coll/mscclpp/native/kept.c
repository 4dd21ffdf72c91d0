/* Copies the arguments of persistent requests, and describes their starts. */
#include "mca/coll/mscclpp/native/kept.h"

#include <stdlib.h>

#include "mca/coll/mscclpp/stage/stage.h"
#include "mca/common/base/log.h"

typedef mca_coll_mscclpp_kept_t kept_t;
typedef mca_coll_mscclpp_passed_t passed_t;

/* The arrays of one side of a call, as pointers to fields of the arguments. NULL: the side has no such array. */
typedef struct {
    mca_coll_mscclpp_counts_t *counts;
    mca_coll_mscclpp_displs_t *displs;
    const MPI_Aint **offsets;
    struct ompi_datatype_t *const **types;
} arrays_t;

/* One side of a call: what this rank sends, or what it receives. */
typedef struct {
    bool is_read; /* MPI reads the side's arguments on this rank */
    arrays_t arrays;
    int blocks;                            /* number of entries of each array */
    const mca_coll_mscclpp_edges_t *edges; /* the blocks that have a peer; NULL: all have */
} side_t;

static arrays_t arrays_of_send(mscclpp_coll_t coll, passed_t *passed)
{
    switch (coll) {
    case MSCCLPP_COLL_SCATTERV:
        return (arrays_t){.counts = &passed->scounts, .displs = &passed->displs};
    case MSCCLPP_COLL_ALLTOALLV:
    case MSCCLPP_COLL_NEIGHBOR_ALLTOALLV:
        return (arrays_t){.counts = &passed->scounts, .displs = &passed->sdispls};
    case MSCCLPP_COLL_ALLTOALLW:
        return (arrays_t){.counts = &passed->scounts, .displs = &passed->sdispls, .types = &passed->stypes};
    case MSCCLPP_COLL_NEIGHBOR_ALLTOALLW:
        return (arrays_t){.counts = &passed->scounts, .offsets = &passed->soffsets, .types = &passed->stypes};
    default:
        return (arrays_t){0};
    }
}

static arrays_t arrays_of_recv(mscclpp_coll_t coll, passed_t *passed)
{
    switch (coll) {
    case MSCCLPP_COLL_REDUCE_SCATTER:
        return (arrays_t){.counts = &passed->rcounts};
    case MSCCLPP_COLL_ALLGATHERV:
    case MSCCLPP_COLL_GATHERV:
    case MSCCLPP_COLL_NEIGHBOR_ALLGATHERV:
        return (arrays_t){.counts = &passed->rcounts, .displs = &passed->displs};
    case MSCCLPP_COLL_ALLTOALLV:
    case MSCCLPP_COLL_NEIGHBOR_ALLTOALLV:
        return (arrays_t){.counts = &passed->rcounts, .displs = &passed->rdispls};
    case MSCCLPP_COLL_ALLTOALLW:
        return (arrays_t){.counts = &passed->rcounts, .displs = &passed->rdispls, .types = &passed->rtypes};
    case MSCCLPP_COLL_NEIGHBOR_ALLTOALLW:
        return (arrays_t){.counts = &passed->rcounts, .offsets = &passed->roffsets, .types = &passed->rtypes};
    default:
        return (arrays_t){0};
    }
}

/*
 * Sets which sides MPI reads on this rank. It does not read a side that MPI_IN_PLACE replaces, nor, on other ranks than
 * the root, a side that only the root passes.
 */
static void set_read_sides(mscclpp_coll_t coll, const passed_t *passed, int rank, side_t *send, side_t *recv)
{
    const bool is_root = rank == passed->root;

    switch (mscclpp_coll_pattern(coll)) {
    case MSCCLPP_DEV_GATHER:
        send->is_read = !is_root || MPI_IN_PLACE != passed->sbuf;
        recv->is_read = is_root;
        break;
    case MSCCLPP_DEV_SCATTER:
        send->is_read = is_root;
        recv->is_read = !is_root || MPI_IN_PLACE != passed->rbuf;
        break;
    default:
        send->is_read = MPI_IN_PLACE != passed->sbuf;
        recv->is_read = true;
    }
}

/*
 * Describes the two sides of a call. Its arguments have been described before, so the edges of a topology are known. If
 * there was no memory for the edges, returns MPI_ERR_NO_MEM.
 */
static int find_sides(mca_coll_mscclpp_module_t *module, mscclpp_coll_t coll, passed_t *passed, side_t *send,
                      side_t *recv)
{
    *send = (side_t){.arrays = arrays_of_send(coll, passed), .blocks = ompi_comm_size(module->comm)};
    *recv = (side_t){.arrays = arrays_of_recv(coll, passed), .blocks = ompi_comm_size(module->comm)};
    set_read_sides(coll, passed, ompi_comm_rank(module->comm), send, recv);
    if (coll >= MSCCLPP_COLL_NEIGHBORS) {
        mca_coll_mscclpp_stage_count_edges(module->comm, &recv->blocks, &send->blocks);
        send->edges = module->edges_out;
        recv->edges = module->edges_in;
        return send->edges != NULL && recv->edges != NULL ? OMPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    return OMPI_SUCCESS;
}

/* Returns room for `count` elements of `size` bytes at *end_p, which it moves behind them. */
static void *take_room(max_align_t **end_p, int count, size_t size)
{
    void *room = *end_p;

    *end_p += ((size_t)count * size + sizeof(max_align_t) - 1) / sizeof(max_align_t);
    return room;
}

/* Returns the size in bytes of the copies of a side's arrays, or a little more. */
static size_t max_copies_bytes(const side_t *side)
{
    const size_t block = sizeof(mca_coll_mscclpp_count_t) + sizeof(mca_coll_mscclpp_displ_t) + sizeof(MPI_Aint) +
                         sizeof(struct ompi_datatype_t *);

    return (size_t)side->blocks * block + 4 * sizeof(max_align_t);
}

/* Replaces the arrays of a side by copies at *end_p. */
static void copy_arrays(const side_t *side, max_align_t **end_p)
{
    const arrays_t *arrays = &side->arrays;

    if (!side->is_read || 0 == side->blocks) {
        return;
    }
    if (arrays->counts != NULL) {
        mca_coll_mscclpp_count_t *copy = take_room(end_p, side->blocks, sizeof(*copy));

        for (int i = 0; i < side->blocks; ++i) {
            copy[i] = (mca_coll_mscclpp_count_t)mca_coll_mscclpp_count_at(*arrays->counts, i);
        }
        MCA_COLL_MSCCLPP_COUNTS_OF(*arrays->counts, copy);
    }
    if (arrays->displs != NULL) {
        mca_coll_mscclpp_displ_t *copy = take_room(end_p, side->blocks, sizeof(*copy));

        for (int i = 0; i < side->blocks; ++i) {
            copy[i] = (mca_coll_mscclpp_displ_t)mca_coll_mscclpp_displ_at(*arrays->displs, i);
        }
        MCA_COLL_MSCCLPP_DISPLS_OF(*arrays->displs, copy);
    }
    if (arrays->offsets != NULL) {
        *arrays->offsets = memcpy(take_room(end_p, side->blocks, sizeof(MPI_Aint)), *arrays->offsets,
                                  (size_t)side->blocks * sizeof(MPI_Aint));
    }
    if (arrays->types != NULL) {
        *arrays->types = memcpy(take_room(end_p, side->blocks, sizeof(**arrays->types)), *arrays->types,
                                (size_t)side->blocks * sizeof(**arrays->types));
    }
}

/*
 * Holds the types of a side: `type`, which all blocks have, or those of the blocks. An empty block may have any type,
 * and so may one without a peer.
 */
static void hold_types(mca_coll_mscclpp_held_t *held, const side_t *side, struct ompi_datatype_t *type)
{
    const int count = side->edges == NULL ? side->blocks : side->edges->count;

    if (!side->is_read) {
        return;
    }
    mca_coll_mscclpp_hold_type(held, type);
    for (int i = 0; i < count && side->arrays.types != NULL; ++i) {
        const int block = side->edges == NULL ? i : side->edges->edge[i].block;

        if (0 != mca_coll_mscclpp_count_at(*side->arrays.counts, block)) {
            mca_coll_mscclpp_hold_type(held, (*side->arrays.types)[block]);
        }
    }
}

/* Makes the description. A failure becomes its `rc`. */
static void describe(kept_t *kept)
{
    (void)kept->describe(&kept->call, kept->module, &kept->passed);
    mca_coll_mscclpp_kept_mark(&kept->call.args);
    kept->call.args.largest_block = kept->largest_block;
}

int mca_coll_mscclpp_kept_make(mca_coll_mscclpp_module_t *module, mscclpp_coll_t coll, const passed_t *passed,
                               mca_coll_mscclpp_describe_fn_t describe_call, uint64_t largest_block, kept_t **kept_p)
{
    passed_t own_arguments = *passed;
    side_t send, recv;
    kept_t *kept = NULL;
    max_align_t *end;
    int rc = find_sides(module, coll, &own_arguments, &send, &recv);

    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    kept = malloc(sizeof(*kept) + max_copies_bytes(&send) + max_copies_bytes(&recv));
    if (kept == NULL) {
        mscclpp_error("%s: no memory for the arguments of a persistent %s", mca_coll_mscclpp_comm_name(module->comm),
                      mscclpp_coll_name(coll));
        return MPI_ERR_NO_MEM;
    }
    /* Three types that are not of blocks: those of the two sides, and that of a call with one buffer. */
    rc = mca_coll_mscclpp_hold_begin(&kept->held, (size_t)send.blocks + (size_t)recv.blocks + 3);
    if (OMPI_SUCCESS != rc) {
        free(kept);
        return rc;
    }
    end = kept->arrays;
    copy_arrays(&send, &end);
    copy_arrays(&recv, &end);
    hold_types(&kept->held, &send, own_arguments.stype);
    hold_types(&kept->held, &recv, own_arguments.rtype);
    mca_coll_mscclpp_hold_type(&kept->held, own_arguments.type);
    kept->module = module;
    kept->passed = own_arguments;
    kept->describe = describe_call;
    kept->largest_block = largest_block;
    describe(kept);
    *kept_p = kept;
    return OMPI_SUCCESS;
}

void mca_coll_mscclpp_kept_free(kept_t *kept)
{
    if (kept != NULL) {
        mca_coll_mscclpp_native_end(&kept->call);
        mca_coll_mscclpp_hold_end(&kept->held);
        free(kept);
    }
}

mca_coll_mscclpp_native_t *mca_coll_mscclpp_kept_call(kept_t *kept)
{
    if (OPAL_UNLIKELY(mca_coll_mscclpp_native_is_outdated(&kept->call))) {
        mscclpp_debug("%s: %s: buffers of a persistent request are described again",
                      mca_coll_mscclpp_comm_name(kept->module->comm), mscclpp_coll_name(kept->call.args.coll));
        mca_coll_mscclpp_native_end(&kept->call);
        describe(kept);
    }
    return &kept->call;
}
