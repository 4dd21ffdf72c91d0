/*
 * Staging of device buffers, call by call: every collective that MPI has, blocking, nonblocking and persistent, with
 * layouts of every kind. What each rank receives is computed here from the ranks' numbers; whole buffers are compared,
 * so that a byte written between the elements, or around them, is found. A counter proves that the calls were staged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PERSISTENT_INIT(Name_) MPIX_##Name_##_init
#else
#define PERSISTENT_INIT(Name_) MPI_##Name_##_init
#endif

#define RANKS_MAX 16
#define MARGIN 1024
#define ARENA ((size_t)1 << 20)
#define ROUNDS 3 /* starts of a persistent request */

typedef enum { BLOCKING, NONBLOCKING, PERSISTENT, VARIANTS } variant_t;

typedef enum {
    ALLGATHER,
    ALLGATHERV,
    ALLREDUCE,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    BCAST,
    EXSCAN,
    GATHER,
    GATHERV,
    REDUCE,
    REDUCE_SCATTER_BLOCK,
    REDUCE_SCATTER,
    SCAN,
    SCATTER,
    SCATTERV,
    NEIGHBOR_ALLGATHER,
    NEIGHBOR_ALLGATHERV,
    NEIGHBOR_ALLTOALL,
    NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW,
    COLLECTIVES
} collective_t;

static const char *const names[COLLECTIVES] = {"allgather",
                                               "allgatherv",
                                               "allreduce",
                                               "alltoall",
                                               "alltoallv",
                                               "alltoallw",
                                               "bcast",
                                               "exscan",
                                               "gather",
                                               "gatherv",
                                               "reduce",
                                               "reduce_scatter_block",
                                               "reduce_scatter",
                                               "scan",
                                               "scatter",
                                               "scatterv",
                                               "neighbor_allgather",
                                               "neighbor_allgatherv",
                                               "neighbor_alltoall",
                                               "neighbor_alltoallv",
                                               "neighbor_alltoallw"};
static const char *const variant_names[VARIANTS] = {"blocking", "nonblocking", "persistent"};

/* An element of a type is `ints` integers, at `first`, `first + step` and so on. */
typedef struct {
    const char *name;
    int ints;
    int first;
    int step;
    int extent;
    MPI_Datatype handle;
} type_t;

enum { PLAIN, GAPPED, SHIFTED, NEGATIVE_LB, FINE, TYPES };
static type_t types[TYPES] = {
    {"int", 1, 0, 4, 4, MPI_DATATYPE_NULL},
    {"int with a gap behind it", 1, 0, 4, 12, MPI_DATATYPE_NULL},
    {"true_lb of 8", 2, 8, 12, 32, MPI_DATATYPE_NULL},
    {"lb of -8", 2, -8, 12, 20, MPI_DATATYPE_NULL},
    {"1500 pieces", 1500, 0, 8, 12000, MPI_DATATYPE_NULL},
};

/* The ranks that a call connects. Ranks are named by their number in MPI_COMM_WORLD. */
typedef struct {
    const char *name;
    MPI_Comm comm;
    bool inter;
    bool topology;
    int rank; /* in the own group */
    int own_size;
    int own[RANKS_MAX];
    int peers; /* the group that data comes from: the remote one of an intercommunicator */
    int peer[RANKS_MAX];
    int in, out; /* degrees */
    int sources[RANKS_MAX];
    int destinations[RANKS_MAX];
} group_t;

/* One of the two buffers of a call: blocks of integers, each block in elements of a type. */
typedef struct {
    const type_t *type; /* of all blocks but those of the w variants */
    int blocks;
    const type_t *block_type[RANKS_MAX];
    int ints[RANKS_MAX];
    long at[RANKS_MAX]; /* bytes from the address */
    int counts[RANKS_MAX];
    int displs[RANKS_MAX];
    int byte_displs[RANKS_MAX];
    MPI_Aint offsets[RANKS_MAX];
    MPI_Datatype handles[RANKS_MAX];
    size_t used; /* bytes of the buffer that are set and compared */
    mt_buffer_t *buffer;
    char *image; /* what the buffer is set to, and then what it has to hold */
} side_t;

typedef struct {
    collective_t collective;
    variant_t variant;
    const group_t *group;
    int root; /* in the own group, or in the remote one */
    bool is_root;
    bool in_place;
    int unit; /* block lengths are multiples of it */
    const type_t *send_type;
    const type_t *recv_type;
    bool mixed; /* types of the w variants change from block to block */
    side_t send;
    side_t recv;
} call_t;

static mt_buffer_t arenas[2][2]; /* send and receive; device and host memory */
static char *images[2];
static char *seen;
static const type_t *op_type;
static MPI_Op sum_op, affine_op;
static long passed, failed, staged_calls;
static bool without; /* the component: shows what Open MPI alone gets wrong */

/* ---- Values ---- */

static unsigned value(int round, int source, int destination, int index)
{
    return (unsigned)mt_mix((uint64_t)(source * 64 + destination), (uint64_t)index, (uint64_t)round) | 1u;
}

/* Pairs are affine maps, whose composition is not commutative. All else is added. */
static void combine(const unsigned *in, unsigned *inout, int ints)
{
    if (2 == ints) {
        inout[1] = in[0] * inout[1] + in[1];
        inout[0] = in[0] * inout[0];
    } else {
        *inout += *in;
    }
}

static void user_op(void *in, void *inout, int *length, MPI_Datatype *unused)
{
    (void)unused;
    for (int item = 0; item < *length; ++item) {
        char *a = (char *)in + (long)item * op_type->extent + op_type->first;
        char *b = (char *)inout + (long)item * op_type->extent + op_type->first;
        for (int i = 0; i < op_type->ints; i += 2 == op_type->ints ? 2 : 1) {
            unsigned left[2] = {0, 0}, right[2] = {0, 0};
            memcpy(&left[0], a + (long)i * op_type->step, 4);
            memcpy(&right[0], b + (long)i * op_type->step, 4);
            if (2 == op_type->ints) {
                memcpy(&left[1], a + op_type->step, 4);
                memcpy(&right[1], b + op_type->step, 4);
            }
            combine(left, right, op_type->ints);
            memcpy(b + (long)i * op_type->step, &right[0], 4);
            if (2 == op_type->ints) {
                memcpy(b + op_type->step, &right[1], 4);
            }
        }
    }
}

/* ---- Layouts ---- */

static bool is_w(collective_t collective)
{
    return ALLTOALLW == collective || NEIGHBOR_ALLTOALLW == collective;
}

static bool is_v(collective_t collective)
{
    return ALLGATHERV == collective || ALLTOALLV == collective || GATHERV == collective || SCATTERV == collective ||
           NEIGHBOR_ALLGATHERV == collective || NEIGHBOR_ALLTOALLV == collective || is_w(collective);
}

static bool is_reduction(collective_t collective)
{
    return ALLREDUCE == collective || EXSCAN == collective || REDUCE == collective || SCAN == collective ||
           REDUCE_SCATTER_BLOCK == collective || REDUCE_SCATTER == collective;
}

static bool is_rooted(collective_t collective)
{
    return BCAST == collective || GATHER == collective || GATHERV == collective || REDUCE == collective ||
           SCATTER == collective || SCATTERV == collective;
}

static bool is_neighbor(collective_t collective)
{
    return collective >= NEIGHBOR_ALLGATHER;
}

/* Each destination of a rank gets the same block. */
static bool is_gather(collective_t collective)
{
    return ALLGATHER == collective || ALLGATHERV == collective || GATHER == collective || GATHERV == collective ||
           NEIGHBOR_ALLGATHER == collective || NEIGHBOR_ALLGATHERV == collective;
}

/* Integers that go from one rank to another, ranks as in the world. */
static int length_of(const call_t *call, int source, int destination)
{
    if (!is_v(call->collective)) {
        return 2 * call->unit;
    }
    if (is_gather(call->collective)) {
        /* Open MPI 4.1 leaves a neighbour's empty message behind where a rank receives nothing else. */
        return call->unit * (source % 3 + is_neighbor(call->collective));
    }
    if (SCATTERV == call->collective) {
        return call->unit * (destination % 3);
    }
    /* Symmetric, as an exchange in place has to be; which Open MPI 4.1 gets wrong if some of its blocks are empty. */
    return call->unit * ((source + destination) % 3 + call->in_place);
}

static char *int_at(const side_t *side, char *address, int block, int index)
{
    const type_t *type = side->block_type[block];

    return address + side->at[block] + (long)(index / type->ints) * type->extent + type->first +
           (long)(index % type->ints) * type->step;
}

static void add_block(side_t *side, const type_t *type, int ints)
{
    side->block_type[side->blocks] = type;
    side->ints[side->blocks] = ints;
    side->counts[side->blocks] = ints / type->ints;
    side->handles[side->blocks] = type->handle;
    ++side->blocks;
}

/* Places the blocks: v and w variants from the last to the first, with room between them. */
static void place(side_t *side, collective_t collective, bool vector)
{
    long at = 0;

    for (int block = 0; block < side->blocks && !vector; ++block) {
        side->at[block] = at;
        at += (long)side->counts[block] * side->type->extent;
    }
    for (int block = side->blocks - 1; block >= 0 && vector; --block) {
        side->at[block] = at;
        if (is_w(collective)) {
            side->byte_displs[block] = (int)at;
            side->offsets[block] = at;
            at += (long)side->counts[block] * side->block_type[block]->extent + 52;
        } else {
            side->displs[block] = (int)(at / side->type->extent);
            at += (long)(side->counts[block] + 1) * side->type->extent;
        }
    }
    side->used = 2 * MARGIN + (size_t)(at + 7) / 8 * 8;
    MT_CHECK(side->used <= ARENA, "the test's buffers are too small");
}

static char *address_of(const side_t *side)
{
    return side->buffer->data + MARGIN;
}

static char *image_of(const side_t *side)
{
    return side->image + MARGIN;
}

static void put(side_t *side, int block, int index, unsigned number)
{
    memcpy(int_at(side, image_of(side), block, index), &number, sizeof(number));
}

/* ---- The meaning of each collective ---- */

static const type_t *type_of_block(const call_t *call, const type_t *type, int index)
{
    return is_w(call->collective) && call->mixed ? &types[index % FINE] : type;
}

/* The number of a rank in the own group; the peers' group for an intercommunicator. */
static void describe(call_t *call)
{
    const group_t *group = call->group;
    collective_t collective = call->collective;
    int me = group->own[group->rank];
    bool sends = true, receives = true;

    call->send.type = call->send_type;
    call->recv.type = call->recv_type;
    call->send.blocks = call->recv.blocks = 0;
    if (is_rooted(collective)) {
        bool from_root = BCAST == collective || SCATTER == collective || SCATTERV == collective;
        bool outside = group->inter && MPI_PROC_NULL == call->root;
        bool peer = !outside && (!group->inter || !call->is_root);
        sends = from_root ? call->is_root : peer;
        receives = from_root ? peer : call->is_root;
    }
    if (is_neighbor(collective)) {
        bool same = is_gather(collective);
        for (int i = 0; i < (same ? 1 : group->out); ++i) {
            add_block(&call->send, type_of_block(call, call->send_type, i),
                      length_of(call, me, same || group->destinations[i] < 0 ? me : group->destinations[i]));
        }
        for (int i = 0; i < group->in; ++i) {
            add_block(&call->recv, type_of_block(call, call->recv_type, i + 1),
                      length_of(call, group->sources[i] < 0 ? me : group->sources[i], me));
        }
    } else if (is_reduction(collective)) {
        bool scattered = REDUCE_SCATTER == collective || REDUCE_SCATTER_BLOCK == collective;
        int blocks = scattered ? group->own_size : 1;
        for (int i = 0; i < blocks && sends; ++i) {
            /* Both groups of an intercommunicator scatter as many elements. */
            int units = group->inter && scattered                       ? 2 * group->peers
                        : REDUCE_SCATTER == collective && !group->inter ? group->own[i] % 3
                                                                        : 2;
            add_block(&call->send, call->send_type, call->unit * units);
        }
        if (receives) {
            int all = 0;
            for (int i = 0; i < blocks; ++i) {
                all += sends ? call->send.ints[i] : 2 * call->unit;
            }
            if (EXSCAN != collective || call->in_place || group->rank > 0) {
                add_block(&call->recv, call->recv_type,
                          scattered && !call->in_place ? call->send.ints[group->rank] : all);
            }
        }
    } else {
        bool one_sent = is_gather(collective) || BCAST == collective;
        bool one_received = BCAST == collective || SCATTER == collective || SCATTERV == collective;
        int root = one_received && !call->is_root ? group->peer[call->root < 0 ? 0 : call->root] : me;
        for (int i = 0; sends && i < (one_sent ? 1 : group->peers); ++i) {
            add_block(&call->send, type_of_block(call, call->send_type, i), length_of(call, me, group->peer[i]));
        }
        for (int i = 0; receives && i < (one_received ? 1 : group->peers); ++i) {
            add_block(&call->recv, type_of_block(call, call->recv_type, i + 1),
                      length_of(call, one_received ? root : group->peer[i], me));
        }
        if (BCAST == collective && call->is_root && !group->inter) {
            call->recv.blocks = 0; /* its one buffer is the send side's */
        }
    }
    place(&call->send, collective, is_v(collective) && !(is_gather(collective)));
    place(&call->recv, collective, is_v(collective) && SCATTERV != collective);
}

static int destination_of(const call_t *call, int index)
{
    const group_t *group = call->group;

    if (is_gather(call->collective) || BCAST == call->collective) {
        return 0;
    }
    return is_neighbor(call->collective) ? group->destinations[index] : group->peer[index];
}

/* The contribution of a rank to a reduction, all blocks one behind the other. */
static void reduce_expected(const call_t *call, int round, unsigned *result, int ints)
{
    const group_t *group = call->group;
    int last = EXSCAN == call->collective ? group->rank - 1 : SCAN == call->collective ? group->rank : group->peers - 1;
    int step = 2 == call->send_type->ints ? 2 : 1;

    for (int i = 0; i < ints; i += step) {
        for (int k = 0; k < step; ++k) {
            result[i + k] = value(round, group->peer[last], 0, i + k);
        }
        for (int rank = last - 1; rank >= 0; --rank) {
            unsigned left[2];
            for (int k = 0; k < step; ++k) {
                left[k] = value(round, group->peer[rank], 0, i + k);
            }
            combine(left, &result[i], call->send_type->ints);
        }
    }
}

static int total_ints(const side_t *side)
{
    int total = 0;

    for (int block = 0; block < side->blocks; ++block) {
        total += side->ints[block];
    }
    return total;
}

static void scribble(side_t *side, int salt)
{
    for (size_t i = 0; i < side->used; i += sizeof(uint64_t)) {
        uint64_t noise = mt_mix(i, (uint64_t)salt, 99);
        memcpy(side->image + i, &noise, sizeof(noise));
    }
}

/* Both images as they are before the call. */
static void fill(call_t *call, int round)
{
    const group_t *group = call->group;
    int me = group->own[group->rank];
    side_t *from = call->in_place && !is_rooted(call->collective) ? &call->recv : &call->send;
    int flat = 0;

    scribble(&call->send, 2 * round);
    scribble(&call->recv, 2 * round + 1);
    if (call->in_place && is_rooted(call->collective) && SCATTER != call->collective && SCATTERV != call->collective &&
        call->is_root) {
        from = &call->recv;
    }
    if (from == &call->recv && is_gather(call->collective)) {
        for (int i = 0; i < from->ints[group->rank]; ++i) {
            put(from, group->rank, i, value(round, me, 0, i));
        }
        return;
    }
    for (int block = 0; block < from->blocks; ++block) {
        for (int i = 0; i < from->ints[block]; ++i) {
            bool reduction = is_reduction(call->collective);
            put(from, block, i, value(round, me, reduction ? 0 : destination_of(call, block), reduction ? flat++ : i));
        }
    }
}

/* The receive image as it has to be after the call. */
static void expect(call_t *call, int round)
{
    const group_t *group = call->group;
    int me = group->own[group->rank];
    side_t *recv = &call->recv;

    if (is_reduction(call->collective)) {
        int own = recv->blocks > 0 ? recv->ints[0] : 0, skip = 0;
        unsigned *result;
        int all = call->in_place ? own : total_ints(&call->send);

        if (0 == recv->blocks || (EXSCAN == call->collective && 0 == group->rank)) {
            return;
        }
        all = 0 == all ? own : all;
        if (REDUCE_SCATTER == call->collective || REDUCE_SCATTER_BLOCK == call->collective) {
            for (int i = 0; i < group->rank; ++i) {
                skip += call->send.ints[i];
            }
            own = call->send.ints[group->rank];
        }
        result = mt_host_alloc(sizeof(*result) * (size_t)(all + 1));
        reduce_expected(call, round, result, all);
        for (int i = 0; i < own; ++i) {
            put(recv, 0, i, result[skip + i]);
        }
        free(result);
        return;
    }
    for (int block = 0; block < recv->blocks; ++block) {
        int source = is_neighbor(call->collective)                                 ? group->sources[block]
                     : is_rooted(call->collective) && !call->is_root               ? group->peer[call->root]
                     : SCATTER == call->collective || SCATTERV == call->collective ? me
                                                                                   : group->peer[block];
        bool kept = call->in_place && call->is_root && (SCATTER == call->collective || SCATTERV == call->collective);
        for (int i = 0; i < recv->ints[block] && source >= 0 && !kept; ++i) {
            put(recv, block, i,
                value(round, source, is_gather(call->collective) || BCAST == call->collective ? 0 : me, i));
        }
    }
}

/* ---- The calls ---- */

#define CALL(Name_, name_, ...)                                                                                        \
    (BLOCKING == call->variant      ? MPI_##Name_(__VA_ARGS__, comm)                                                   \
     : NONBLOCKING == call->variant ? MPI_I##name_(__VA_ARGS__, comm, request)                                         \
                                    : PERSISTENT_INIT(Name_)(__VA_ARGS__, comm, MPI_INFO_NULL, request))

static int start(call_t *call, MPI_Request *request)
{
    MPI_Comm comm = call->group->comm;
    side_t *s = &call->send, *r = &call->recv;
    int rank = call->group->rank;
    MPI_Op op = call->send_type == &types[PLAIN] ? MPI_SUM : 2 == call->send_type->ints ? affine_op : sum_op;
    bool root_only = is_rooted(call->collective);
    const void *sbuf = call->in_place && (!root_only || call->is_root) ? MPI_IN_PLACE : address_of(s);
    void *rbuf = r->blocks > 0 ? address_of(r) : NULL;
    MPI_Datatype stype = s->type->handle, rtype = r->type->handle;
    int even = 2 * call->unit; /* Open MPI looks at both counts, used or not */
    int scount = s->blocks > 0 ? s->counts[0] : even / s->type->ints;
    int rcount = r->blocks > 0 ? r->counts[0] : even / r->type->ints;
    int in_send = total_ints(s) / s->type->ints;

    op_type = call->send_type;
    switch (call->collective) {
    case ALLGATHER:
        return CALL(Allgather, allgather, sbuf, scount, stype, rbuf, rcount, rtype);
    case ALLGATHERV:
        return CALL(Allgatherv, allgatherv, sbuf, scount, stype, rbuf, r->counts, r->displs, rtype);
    case ALLREDUCE:
        return CALL(Allreduce, allreduce, sbuf, rbuf, in_send, stype, op);
    case ALLTOALL:
        return CALL(Alltoall, alltoall, sbuf, scount, stype, rbuf, rcount, rtype);
    case ALLTOALLV:
        return CALL(Alltoallv, alltoallv, sbuf, s->counts, s->displs, stype, rbuf, r->counts, r->displs, rtype);
    case ALLTOALLW:
        return CALL(Alltoallw, alltoallw, sbuf, s->counts, s->byte_displs, s->handles, rbuf, r->counts, r->byte_displs,
                    r->handles);
    case BCAST:
        return s->blocks > 0 ? CALL(Bcast, bcast, address_of(s), scount, stype, call->root)
                             : CALL(Bcast, bcast, rbuf, r->blocks > 0 ? rcount : 0, rtype, call->root);
    case EXSCAN:
        return CALL(Exscan, exscan, sbuf, rbuf, in_send, stype, op);
    case GATHER:
        return CALL(Gather, gather, sbuf, scount, stype, rbuf, rcount, rtype, call->root);
    case GATHERV:
        return CALL(Gatherv, gatherv, sbuf, scount, stype, rbuf, NULL == rbuf ? NULL : r->counts,
                    NULL == rbuf ? NULL : r->displs, rtype, call->root);
    case REDUCE:
        return CALL(Reduce, reduce, sbuf, rbuf, 2 * call->unit / s->type->ints, stype, op, call->root);
    case REDUCE_SCATTER_BLOCK:
        return CALL(Reduce_scatter_block, reduce_scatter_block, sbuf, rbuf, s->counts[rank], stype, op);
    case REDUCE_SCATTER:
        return CALL(Reduce_scatter, reduce_scatter, sbuf, rbuf, s->counts, stype, op);
    case SCAN:
        return CALL(Scan, scan, sbuf, rbuf, in_send, stype, op);
    case SCATTER:
        rbuf = call->in_place && call->is_root ? MPI_IN_PLACE : rbuf;
        return CALL(Scatter, scatter, s->blocks > 0 ? address_of(s) : NULL, scount, stype, rbuf, rcount, rtype,
                    call->root);
    case SCATTERV:
        rbuf = call->in_place && call->is_root ? MPI_IN_PLACE : rbuf;
        return CALL(Scatterv, scatterv, s->blocks > 0 ? address_of(s) : NULL, s->blocks > 0 ? s->counts : NULL,
                    s->blocks > 0 ? s->displs : NULL, stype, rbuf, rcount, rtype, call->root);
    case NEIGHBOR_ALLGATHER:
        return CALL(Neighbor_allgather, neighbor_allgather, sbuf, scount, stype, rbuf, rcount, rtype);
    case NEIGHBOR_ALLGATHERV:
        return CALL(Neighbor_allgatherv, neighbor_allgatherv, sbuf, scount, stype, rbuf, r->counts, r->displs, rtype);
    case NEIGHBOR_ALLTOALL:
        return CALL(Neighbor_alltoall, neighbor_alltoall, sbuf, scount, stype, rbuf, rcount, rtype);
    case NEIGHBOR_ALLTOALLV:
        return CALL(Neighbor_alltoallv, neighbor_alltoallv, sbuf, s->counts, s->displs, stype, rbuf, r->counts,
                    r->displs, rtype);
    default:
        return CALL(Neighbor_alltoallw, neighbor_alltoallw, sbuf, s->counts, s->offsets, s->handles, rbuf, r->counts,
                    r->offsets, r->handles);
    }
}

static bool compare(const call_t *call, const side_t *side, const char *which, int round)
{
    mt_buffer_get(side->buffer, seen, side->used);
    for (size_t i = 0; i < side->used && 0 != memcmp(seen, side->image, side->used); ++i) {
        if (seen[i] != side->image[i]) {
            mt_fail(__FILE__, __LINE__,
                    "%s %s on %s, send type \"%s\", receive type \"%s\", unit %d, root %d%s%s, round %d: byte %ld of "
                    "the %s buffer is 0x%02x and not 0x%02x",
                    variant_names[call->variant], names[call->collective], call->group->name, call->send_type->name,
                    call->recv_type->name, call->unit, call->root, call->in_place ? ", in place" : "",
                    call->mixed ? ", mixed types" : "", round, (long)i - MARGIN, which, (unsigned char)seen[i],
                    (unsigned char)side->image[i]);
            return false;
        }
    }
    return true;
}

/* Blocks that MPI lets this rank touch; a rank that touches nothing has nothing to stage. */
static bool touches(const call_t *call)
{
    bool alone = !call->group->inter && 1 == call->group->own_size;
    int sent = is_neighbor(call->collective) && 0 == call->group->out ? 0 : total_ints(&call->send);

    /* Open MPI itself answers a broadcast to nobody. */
    return sent + total_ints(&call->recv) > 0 && !(alone && BCAST == call->collective);
}

static bool kernels_may_serve(const call_t *call)
{
    return ALLREDUCE == call->collective && BLOCKING == call->variant && &types[PLAIN] == call->send_type &&
           !mt_parameter_is("algorithm", "stage");
}

static void run_call(call_t *call)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int rounds = PERSISTENT == call->variant ? ROUNDS : 1;
    bool good = true;

    describe(call);
    for (int round = 0; round < rounds; ++round) {
        uint64_t before = without ? 0 : mt_staged(call->group->comm);
        int code = MPI_SUCCESS;

        fill(call, round);
        mt_buffer_put(call->send.buffer, call->send.image, call->send.used);
        mt_buffer_put(call->recv.buffer, call->recv.image, call->recv.used);
        if (0 == round) {
            code = start(call, &request);
        }
        if (PERSISTENT == call->variant && MPI_SUCCESS == code) {
            code = MPI_Start(&request);
        }
        if (BLOCKING != call->variant && MPI_SUCCESS == code) {
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (MPI_SUCCESS != code) {
            mt_fail(__FILE__, __LINE__, "%s %s on %s returned error %d", variant_names[call->variant],
                    names[call->collective], call->group->name, code);
            good = false;
        }
        good = compare(call, &call->send, "send", round) && good;
        expect(call, round);
        good = compare(call, &call->recv, "receive", round) && good;
        if (without || mt_staged(call->group->comm) > before) {
            staged_calls += !without;
        } else if (touches(call) && !kernels_may_serve(call)) {
            mt_fail(__FILE__, __LINE__, "%s %s on %s%s, root %d: not staged", variant_names[call->variant],
                    names[call->collective], call->group->name, call->in_place ? ", in place" : "", call->root);
            good = false;
        }
    }
    if (PERSISTENT == call->variant) {
        MT_MPI(MPI_Request_free(&request));
    }
    *(good ? &passed : &failed) += 1;
}

static bool applies(collective_t collective, const group_t *group)
{
    if (is_neighbor(collective)) {
        return group->topology;
    }
    return !group->topology && !(group->inter && (SCAN == collective || EXSCAN == collective));
}

static bool has_in_place(collective_t collective)
{
    return BCAST != collective && !is_neighbor(collective);
}

/* One root after another; every collective that has none, once. */
static void run_roots(call_t *call)
{
    const group_t *group = call->group;
    int roots = is_rooted(call->collective) ? group->inter ? 1 : group->own_size < 2 ? 1 : 2 : 1;

    for (int i = 0; i < roots; ++i) {
        if (!is_rooted(call->collective)) {
            call->root = -1;
            call->is_root = false;
        } else if (!group->inter) {
            call->root = 0 == i ? 0 : group->own_size - 1;
            call->is_root = call->root == group->rank;
        } else if (0 == group->own[0]) {
            call->is_root = 0 == group->rank;
            call->root = call->is_root ? MPI_ROOT : MPI_PROC_NULL;
        } else {
            call->is_root = false;
            call->root = 0;
        }
        run_call(call);
    }
}

/* What Open MPI 4.1 gets wrong without any help, and so nothing can be compared with. */
static bool beyond_open_mpi(const call_t *call)
{
    const group_t *group = call->group;

    /* Counts the elements of the root's type in the receivers' type. */
    if (SCATTERV == call->collective && group->inter && BLOCKING == call->variant) {
        return call->send_type->ints != call->recv_type->ints;
    }
    /* Hangs if a group has more than one rank. */
    if ((REDUCE_SCATTER_BLOCK == call->collective || REDUCE_SCATTER == call->collective) && group->inter &&
        BLOCKING != call->variant) {
        return group->own_size > 1 || group->peers > 1;
    }
    return false;
}

static void run_group(const group_t *group, variant_t variant, int send_kind, int recv_kind)
{
    static const struct {
        int send, recv, unit;
        bool mixed;
    } layouts[] = {
        {PLAIN, PLAIN, 2, false},    {PLAIN, SHIFTED, 2, false},           {GAPPED, NEGATIVE_LB, 2, true},
        {SHIFTED, GAPPED, 6, false}, {NEGATIVE_LB, PLAIN, 2, false},       {SHIFTED, SHIFTED, 2, false},
        {GAPPED, GAPPED, 4, false},  {NEGATIVE_LB, NEGATIVE_LB, 2, false}, {FINE, FINE, 1500, false},
        {PLAIN, FINE, 1500, false},  {FINE, PLAIN, 1500, false},           {PLAIN, PLAIN, 0, false},
    };

    for (int collective = 0; collective < COLLECTIVES; ++collective) {
        for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); ++i) {
            for (int in_place = 0; in_place < 2; ++in_place) {
                call_t call = {.collective = (collective_t)collective,
                               .variant = variant,
                               .group = group,
                               .in_place = in_place,
                               .unit = layouts[i].unit,
                               .mixed = layouts[i].mixed,
                               .send_type = &types[layouts[i].send],
                               .recv_type = &types[layouts[i].recv]};

                if (!applies(call.collective, group) ||
                    (in_place && (!has_in_place(call.collective) || group->inter))) {
                    continue;
                }
                if (beyond_open_mpi(&call)) {
                    continue;
                }
                if (is_reduction(call.collective) && call.send_type != call.recv_type) {
                    continue;
                }
                if (in_place && !is_rooted(call.collective)) {
                    call.send_type = call.recv_type; /* says how long blocks are; MPI does not look at it */
                }
                call.send.buffer = &arenas[0][send_kind];
                call.recv.buffer = &arenas[1][recv_kind];
                call.send.image = images[0];
                call.recv.image = images[1];
                run_roots(&call);
            }
        }
    }
}

/* ---- Groups ---- */

static void intra(group_t *group, const char *name, MPI_Comm comm)
{
    memset(group, 0, sizeof(*group));
    group->name = name;
    group->comm = comm;
    MPI_Comm_rank(comm, &group->rank);
    MPI_Comm_size(comm, &group->own_size);
    mt_allgather(comm, &mt_rank, group->own, sizeof(int));
    group->peers = group->own_size;
    memcpy(group->peer, group->own, sizeof(group->own));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

/* The lower and the upper half of the world. */
static void inter(group_t *group)
{
    int half = (mt_size + 1) / 2;
    bool low = mt_rank < half;
    MPI_Comm local, comm;

    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, low, mt_rank, &local));
    MT_MPI(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, low ? half : 0, 7, &comm));
    intra(group, "an intercommunicator", local);
    MPI_Comm_free(&local);
    group->comm = comm;
    group->inter = true;
    group->peers = low ? mt_size - half : half;
    for (int i = 0; i < group->peers; ++i) {
        group->peer[i] = low ? half + i : i;
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

static void cart(group_t *group, int periodic)
{
    MPI_Comm comm;

    MT_MPI(MPI_Cart_create(MPI_COMM_WORLD, 1, &mt_size, &periodic, 0, &comm));
    intra(group, periodic ? "a ring" : "a line", comm);
    group->topology = true;
    group->in = group->out = 2;
    MT_MPI(MPI_Cart_shift(comm, 0, 1, &group->sources[0], &group->sources[1]));
    memcpy(group->destinations, group->sources, sizeof(group->sources));
}

/* A star: the first rank has an edge to each other. */
static void graph(group_t *group)
{
    int index[RANKS_MAX], edges[2 * RANKS_MAX];
    MPI_Comm comm;

    for (int i = 0; i < mt_size; ++i) {
        index[i] = mt_size - 1 + i;
        edges[i] = i + 1; /* the last of these is then replaced */
    }
    for (int i = 0; i < mt_size; ++i) {
        edges[mt_size - 1 + i] = 0;
    }
    MT_MPI(MPI_Graph_create(MPI_COMM_WORLD, mt_size, index, edges, 0, &comm));
    intra(group, "a graph", comm);
    group->topology = true;
    group->in = group->out = 0 == mt_rank ? mt_size - 1 : 1;
    for (int i = 0; i < group->in; ++i) {
        group->sources[i] = group->destinations[i] = 0 == mt_rank ? i + 1 : 0;
    }
}

/* Edges to all ranks above and to itself: degrees differ, in and out. */
static void dist_graph(group_t *group)
{
    MPI_Comm comm;
    int in = 0, out = 0, sources[RANKS_MAX], destinations[RANKS_MAX];

    for (int i = 0; i <= mt_rank; ++i) {
        sources[in++] = i;
    }
    for (int i = mt_rank; i < mt_size; ++i) {
        destinations[out++] = i;
    }
    if (mt_rank == mt_size - 1) {
        out = 0; /* a rank that sends nothing, not even to itself */
        --in;
    }
    MT_MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, MPI_UNWEIGHTED, out, destinations,
                                          MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    intra(group, "a distributed graph", comm);
    group->topology = true;
    group->in = in;
    group->out = out;
    memcpy(group->sources, sources, sizeof(sources));
    memcpy(group->destinations, destinations, sizeof(destinations));
}

static void make_types(void)
{
    for (int i = 0; i < TYPES; ++i) {
        MPI_Datatype inner, shifted;
        MPI_Aint first = types[i].first;

        if (PLAIN == i) {
            types[i].handle = MPI_INT;
            continue;
        }
        MT_MPI(MPI_Type_create_hvector(types[i].ints, 1, types[i].step, MPI_INT, &inner));
        MT_MPI(MPI_Type_create_hindexed_block(1, 1, &first, inner, &shifted));
        MT_MPI(MPI_Type_create_resized(shifted, first < 0 ? first : 0, types[i].extent, &types[i].handle));
        MT_MPI(MPI_Type_commit(&types[i].handle));
        MPI_Type_free(&inner);
        MPI_Type_free(&shifted);
    }
    MT_MPI(MPI_Op_create(user_op, 1, &sum_op));
    MT_MPI(MPI_Op_create(user_op, 0, &affine_op));
}

int main(int argc, char **argv)
{
    group_t groups[7];
    int count = 0;
    long totals[3];

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    without = argc > 1 && 0 == strcmp(argv[1], "--without");
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    MT_CHECK(mt_size <= RANKS_MAX, "at most %d ranks", RANKS_MAX);
    make_types();
    for (int i = 0; i < 2; ++i) {
        arenas[i][0] = mt_buffer_alloc(MT_DEVICE, ARENA, 0);
        arenas[i][1] = mt_buffer_alloc(MT_HOST, ARENA, 0);
        images[i] = mt_host_alloc(ARENA);
    }
    seen = mt_host_alloc(ARENA);

    intra(&groups[count++], "the world", MPI_COMM_WORLD);
    inter(&groups[count++]);
    intra(&groups[count++], "MPI_COMM_SELF", MPI_COMM_SELF);
    cart(&groups[count++], 0);
    if (mt_size > 2) {
        cart(&groups[count++], 1);
    }
    graph(&groups[count++]);
    dist_graph(&groups[count++]);
    for (int i = 0; i < count; ++i) {
        for (int variant = 0; variant < VARIANTS; ++variant) {
            run_group(&groups[i], (variant_t)variant, 0, 0);
        }
    }
    for (int i = 0; i < count; ++i) {
        if (MPI_COMM_WORLD != groups[i].comm && MPI_COMM_SELF != groups[i].comm) {
            MT_MPI(MPI_Comm_free(&groups[i].comm));
        }
    }
    for (int i = 1; i < TYPES; ++i) {
        MPI_Type_free(&types[i].handle);
    }
    MPI_Op_free(&sum_op);
    MPI_Op_free(&affine_op);
    for (int i = 0; i < 2; ++i) {
        mt_buffer_free(&arenas[i][0], "a device buffer");
        mt_buffer_free(&arenas[i][1], "a host buffer");
    }
    totals[0] = passed;
    totals[1] = failed;
    totals[2] = staged_calls;
    printf("rank %d: %ld passed, %ld failed, %ld calls staged\n", mt_rank, totals[0], totals[1], totals[2]);
    return mt_finish();
}
