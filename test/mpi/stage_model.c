#include "test/mpi/stage_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const char *const sm_collective_names[COLLECTIVES] = {"allgather",
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

type_t sm_types[TYPES] = {
    {"int", 1, 0, 4, 4, MPI_DATATYPE_NULL},
    {"int with a gap behind it", 1, 0, 4, 12, MPI_DATATYPE_NULL},
    {"true_lb of 8", 2, 8, 12, 32, MPI_DATATYPE_NULL},
    {"lb of -8", 2, -8, 12, 20, MPI_DATATYPE_NULL},
    {"1500 pieces", 1500, 0, 8, 12000, MPI_DATATYPE_NULL},
};

MPI_Op sm_sum_op;
MPI_Op sm_affine_op;
static const type_t *op_type;

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

/* A user's operation on elements of op_type. */
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

bool is_w(collective_t collective)
{
    return ALLTOALLW == collective || NEIGHBOR_ALLTOALLW == collective;
}

bool is_v(collective_t collective)
{
    return ALLGATHERV == collective || ALLTOALLV == collective || GATHERV == collective || SCATTERV == collective ||
           NEIGHBOR_ALLGATHERV == collective || NEIGHBOR_ALLTOALLV == collective || is_w(collective);
}

bool is_reduction(collective_t collective)
{
    return ALLREDUCE == collective || EXSCAN == collective || REDUCE == collective || SCAN == collective ||
           REDUCE_SCATTER_BLOCK == collective || REDUCE_SCATTER == collective;
}

bool is_rooted(collective_t collective)
{
    return BCAST == collective || GATHER == collective || GATHERV == collective || REDUCE == collective ||
           SCATTER == collective || SCATTERV == collective;
}

bool is_neighbor(collective_t collective)
{
    return collective >= NEIGHBOR_ALLGATHER;
}

/* Each destination of a rank gets the same block. */
bool is_gather(collective_t collective)
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
        return call->unit * (source % 3);
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

char *sm_address(const side_t *side)
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
    return is_w(call->collective) && call->mixed ? &sm_types[index % FINE] : type;
}

void sm_describe(call_t *call)
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
            /* Both groups of an inter-communicator scatter as many elements. */
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

int sm_ints(const side_t *side)
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
void sm_fill(call_t *call, int round)
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
void sm_expect(call_t *call, int round)
{
    const group_t *group = call->group;
    int me = group->own[group->rank];
    side_t *recv = &call->recv;

    if (is_reduction(call->collective)) {
        int own = recv->blocks > 0 ? recv->ints[0] : 0, skip = 0;
        unsigned *result;
        int all = call->in_place ? own : sm_ints(&call->send);

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

void sm_open(void)
{
    for (int i = 0; i < TYPES; ++i) {
        MPI_Datatype inner, shifted;
        MPI_Aint first = sm_types[i].first;

        if (PLAIN == i) {
            sm_types[i].handle = MPI_INT;
            continue;
        }
        MT_MPI(MPI_Type_create_hvector(sm_types[i].ints, 1, sm_types[i].step, MPI_INT, &inner));
        MT_MPI(MPI_Type_create_hindexed_block(1, 1, &first, inner, &shifted));
        MT_MPI(MPI_Type_create_resized(shifted, first < 0 ? first : 0, sm_types[i].extent, &sm_types[i].handle));
        MT_MPI(MPI_Type_commit(&sm_types[i].handle));
        MPI_Type_free(&inner);
        MPI_Type_free(&shifted);
    }
    sm_make_op(true, &sm_sum_op);
    sm_make_op(false, &sm_affine_op);
}

void sm_make_op(bool commutes, MPI_Op *op)
{
    MT_MPI(MPI_Op_create(user_op, commutes, op));
}

void sm_close(void)
{
    for (int i = PLAIN + 1; i < TYPES; ++i) {
        MPI_Type_free(&sm_types[i].handle);
    }
    MPI_Op_free(&sm_sum_op);
    MPI_Op_free(&sm_affine_op);
}

void sm_set_op_type(const type_t *type)
{
    op_type = type;
}

/* ---- Arguments that end when a persistent request has been made ---- */

/* In pages of their own, which are out of reach between sm_take_back and the next sm_lend. */
static struct {
    side_t sides[2];
    type_t types[2]; /* of the sides */
    bool frees;      /* the handles are duplicates */
    MPI_Op op;       /* MPI_OP_NULL: the operation is no duplicate */
} * lent;

/* Types that were duplicated, and those of them that have ended. */
static int lent_types, ended_types;

static int count_end(MPI_Datatype type, int key, void *value, void *context)
{
    (void)type;
    (void)key;
    (void)value;
    (void)context;
    ++ended_types;
    return MPI_SUCCESS;
}

/* Replaces the handle of a derived type by one of a duplicate, whose end is counted. */
static void duplicate(MPI_Datatype *type)
{
    static int key = MPI_KEYVAL_INVALID;

    if (MPI_INT == *type) {
        return;
    }
    if (MPI_KEYVAL_INVALID == key) {
        MT_MPI(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, count_end, &key, NULL));
    }
    MT_MPI(MPI_Type_dup(*type, type));
    MT_MPI(MPI_Type_set_attr(*type, key, NULL));
    ++lent_types;
}

static void end_duplicate(MPI_Datatype *type)
{
    if (MPI_INT != *type) {
        MT_MPI(MPI_Type_free(type));
    }
}

/* Does something with each handle of the types that the call of two lent sides uses. */
static void each_type(const call_t *call, void (*act)(MPI_Datatype *))
{
    for (int side = 0; side < 2; ++side) {
        act(&lent->types[side].handle);
        for (int i = 0; i < lent->sides[side].blocks && is_w(call->collective); ++i) {
            act(&lent->sides[side].handles[i]);
        }
    }
}

const side_t *sm_lend(const call_t *call, bool frees, MPI_Op *op)
{
    if (lent == NULL) {
        lent = mmap(NULL, sizeof(*lent), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MT_CHECK(MAP_FAILED != (void *)lent, "no memory for arguments");
    }
    MT_CHECK(0 == mprotect(lent, sizeof(*lent), PROT_READ | PROT_WRITE), "the arguments cannot be written");
    lent->sides[0] = call->send;
    lent->sides[1] = call->recv;
    lent->frees = frees;
    lent->op = MPI_OP_NULL;
    for (int side = 0; side < 2; ++side) {
        lent->types[side] = *lent->sides[side].type;
        lent->sides[side].type = &lent->types[side];
    }
    if (frees) {
        each_type(call, duplicate);
    }
    if (frees && is_reduction(call->collective) && MPI_SUM != *op) {
        sm_make_op(sm_sum_op == *op, &lent->op);
        *op = lent->op;
    }
    return lent->sides;
}

void sm_take_back(const call_t *call)
{
    if (lent->frees) {
        each_type(call, end_duplicate);
    }
    if (MPI_OP_NULL != lent->op) {
        MT_MPI(MPI_Op_free(&lent->op));
    }
    MT_CHECK(0 == mprotect(lent, sizeof(*lent), PROT_NONE), "the arguments stay in reach");
}

void sm_check_ended(const call_t *call)
{
    MT_CHECK(lent_types == ended_types, "%s on %s: %d of %d types have not ended with their persistent request",
             sm_collective_names[call->collective], call->group->name, lent_types - ended_types, lent_types);
}
