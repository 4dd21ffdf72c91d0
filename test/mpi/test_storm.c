/*
 * A storm of collectives on device buffers: which one, how it is called (blocking, nonblocking, persistent), its
 * communicator, type, operation, sizes, root and place in memory are drawn at random. All ranks draw the same from the
 * same seed. Every rank computes what it must receive, and compares whole buffers.
 * Usage: test_storm SECONDS [SEED [CALLS]]: prints the seed and how many calls there were. A failure names its call,
 * and the same seed repeats it. CALLS ends the storm after so many calls, whatever the time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/mpi/mpi_test.h"

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PERSISTENT_INIT(Name_) MPIX_##Name_##_init
#else
#define PERSISTENT_INIT(Name_) MPI_##Name_##_init
#endif

#define RANKS_MAX 16
#define COMMS 5
#define IN_FLIGHT 4      /* nonblocking calls at once */
#define COUNT_MAX 60000u /* elements of a block, rarely */
#define AGREE_EVERY 64   /* calls after which the ranks agree on going on */
#define UNTOUCHED 0xee

/* The order matters to what follows: those that combine come first, and those with neighbours last. */
/* clang-format off */
#define STORM_COLLS(X_)                                                                                                \
    X_(ALLREDUCE, "Allreduce") X_(REDUCE, "Reduce") X_(SCAN, "Scan") X_(EXSCAN, "Exscan")                              \
    X_(REDUCE_SCATTER_BLOCK, "Reduce_scatter_block") X_(REDUCE_SCATTER, "Reduce_scatter") X_(BCAST, "Bcast")           \
    X_(GATHER, "Gather") X_(GATHERV, "Gatherv") X_(SCATTER, "Scatter") X_(SCATTERV, "Scatterv")                        \
    X_(ALLGATHER, "Allgather") X_(ALLGATHERV, "Allgatherv") X_(ALLTOALL, "Alltoall") X_(ALLTOALLV, "Alltoallv")        \
    X_(ALLTOALLW, "Alltoallw") X_(NEIGHBOR_ALLGATHER, "Neighbor_allgather")                                            \
    X_(NEIGHBOR_ALLGATHERV, "Neighbor_allgatherv") X_(NEIGHBOR_ALLTOALL, "Neighbor_alltoall")                          \
    X_(NEIGHBOR_ALLTOALLV, "Neighbor_alltoallv") X_(NEIGHBOR_ALLTOALLW, "Neighbor_alltoallw")
/* clang-format on */

#define STORM_ID(id_, name_) id_,
#define STORM_NAME(id_, name_) name_,
typedef enum { STORM_COLLS(STORM_ID) COLLS } coll_t;
typedef enum { BLOCKING, NONBLOCKING, PERSISTENT, VARIANTS } variant_t;

static const char *const coll_names[COLLS] = {STORM_COLLS(STORM_NAME)};
static const char *const variant_names[VARIANTS] = {"blocking", "nonblocking", "persistent"};

typedef struct {
    MPI_Datatype handle;
    size_t size;
} type_t;

static type_t types[6];
static MPI_Op ops[3];
static const char *const op_names[3] = {"sum", "max", "min"};

/* A communicator. The last one is a ring, in which each rank has an edge to the next one. */
typedef struct {
    MPI_Comm comm;
    int rank;
    int size;
    int from, to; /* of a ring: neighbours */
} group_t;

static group_t groups[COMMS];

/* The blocks of one of a call's two buffers. Block `peer` begins `first` elements behind the buffer's start. */
typedef struct {
    int blocks; /* 0: the buffer is not used */
    int counts[RANKS_MAX];
    int firsts[RANKS_MAX];
    int bytes[RANKS_MAX];        /* `firsts` in bytes */
    MPI_Aint offsets[RANKS_MAX]; /* the same */
    MPI_Datatype handles[RANKS_MAX];
    int apart; /* elements from one to the next: 1, or 2 with gaps */
    size_t size;
    mt_buffer_t buffer;
} side_t;

typedef struct {
    uint64_t number;
    coll_t coll;
    variant_t variant;
    int group;
    int type;
    int op;
    int root;
    bool in_place;
    bool gaps; /* of an alltoallw's receive buffer */
    unsigned most;
    side_t send;
    side_t recv;
    unsigned char *expected;
    MPI_Request request;
} call_t;

static uint64_t seed, calls;

/* The next number below `limit` that all ranks draw alike. */
static unsigned draw(uint64_t call, uint64_t *state, unsigned limit)
{
    return (unsigned)(mt_mix(seed, call, ++*state) % limit);
}

/* Element `i` of the block that `source` has for `target`. Sums of all ranks are exact in every type. */
static int value(const call_t *call, int source, int target, int i)
{
    return (int)(mt_mix(seed + call->number, (uint64_t)(source * RANKS_MAX + target), (uint64_t)i) % 8);
}

static bool combines(coll_t coll)
{
    return coll <= REDUCE_SCATTER;
}

static bool is_rooted(coll_t coll)
{
    return REDUCE == coll || (coll >= BCAST && coll <= SCATTERV);
}

static bool is_neighbor(coll_t coll)
{
    return coll >= NEIGHBOR_ALLGATHER;
}

static bool is_varied(coll_t coll)
{
    return REDUCE_SCATTER == coll || GATHERV == coll || SCATTERV == coll || ALLGATHERV == coll || ALLTOALLV == coll ||
           ALLTOALLW == coll || NEIGHBOR_ALLGATHERV == coll || NEIGHBOR_ALLTOALLV == coll || NEIGHBOR_ALLTOALLW == coll;
}

/* True if the block depends on both its ends. */
static bool is_pairwise(coll_t coll)
{
    return (coll >= ALLTOALL && coll <= ALLTOALLW) || coll >= NEIGHBOR_ALLTOALL;
}

/* Elements of the block from `source` to `target`. In a gather `target` does not count, in a scatter `source`. */
static int block_count(const call_t *call, int source, int target)
{
    const uint64_t who = is_pairwise(call->coll) ? (uint64_t)(source * RANKS_MAX + target)
                         : GATHERV == call->coll || ALLGATHERV == call->coll || NEIGHBOR_ALLGATHERV == call->coll
                             ? (uint64_t)source
                             : (uint64_t)target;
    const uint64_t mix = mt_mix(seed ^ 0x5707, call->number, who);

    if (!is_varied(call->coll)) {
        return (int)call->most;
    }
    return mix % 5 == 0 ? 0 : (int)(mix / 5 % (call->most + 1));
}

static void encode(int type, long number, unsigned char *to)
{
    const MPI_Datatype handle = types[type].handle;

    if (MPI_DOUBLE == handle) {
        *(double *)(void *)to = (double)number;
    } else if (MPI_FLOAT == handle) {
        *(float *)(void *)to = (float)number;
    } else if (MPI_INT64_T == handle) {
        *(int64_t *)(void *)to = number;
    } else if (MPI_INT32_T == handle) {
        *(int32_t *)(void *)to = (int32_t)number;
    } else if (MPI_INT16_T == handle) {
        *(int16_t *)(void *)to = (int16_t)number;
    } else {
        *to = (unsigned char)number;
    }
}

/* Combines element `i` of the block for `target` over the ranks below `end`. */
static long combine(const call_t *call, int end, int target, int i)
{
    long all = value(call, 0, target, i);

    for (int source = 1; source < end; ++source) {
        const long next = value(call, source, target, i);

        all = 0 == call->op ? all + next : (1 == call->op ? next > all : next < all) ? next : all;
    }
    return all;
}

/* Which rank is at the other end of block `i` of a side. */
static int peer_of(const call_t *call, const side_t *side, int i)
{
    const group_t *group = &groups[call->group];

    if (is_neighbor(call->coll)) {
        return side == &call->send ? group->to : group->from;
    }
    return i;
}

/* How many blocks the two buffers have. */
static void count_blocks(const call_t *call, int *send_p, int *recv_p)
{
    const group_t *group = &groups[call->group];
    const bool is_root = group->rank == call->root;

    *send_p = *recv_p = 1;
    switch (call->coll) {
    case REDUCE:
        *recv_p = is_root;
        break;
    case REDUCE_SCATTER_BLOCK:
    case REDUCE_SCATTER:
        *send_p = group->size;
        break;
    case BCAST:
        *send_p = 0;
        break;
    case GATHER:
    case GATHERV:
        *recv_p = is_root ? group->size : 0;
        break;
    case SCATTER:
    case SCATTERV:
        *send_p = is_root ? group->size : 0;
        break;
    case ALLGATHER:
    case ALLGATHERV:
        *recv_p = group->size;
        break;
    case ALLTOALL:
    case ALLTOALLV:
    case ALLTOALLW:
        *send_p = *recv_p = group->size;
        break;
    default:
        break;
    }
}

/* The ends of block `i` of a side. */
static void ends_of(const call_t *call, const side_t *side, int i, int *source_p, int *target_p)
{
    const group_t *group = &groups[call->group];
    const int peer = peer_of(call, side, i);

    *source_p = side == &call->send ? group->rank : peer;
    *target_p = side == &call->send ? peer : group->rank;
    if (BCAST == call->coll || SCATTER == call->coll || SCATTERV == call->coll) {
        *source_p = call->root;
    }
    if (combines(call->coll) && REDUCE_SCATTER_BLOCK != call->coll && REDUCE_SCATTER != call->coll) {
        *target_p = 0;
    }
    if (BCAST == call->coll || GATHER == call->coll || GATHERV == call->coll || ALLGATHER == call->coll ||
        ALLGATHERV == call->coll || NEIGHBOR_ALLGATHER == call->coll || NEIGHBOR_ALLGATHERV == call->coll) {
        *target_p = 0;
    }
}

/* Elements of block `i` of a side. */
static int side_count(const call_t *call, const side_t *side, int i)
{
    const group_t *group = &groups[call->group];
    int source, target;

    ends_of(call, side, i, &source, &target);
    if (SCATTERV == call->coll && side == &call->recv) {
        target = group->rank;
    }
    return block_count(call, source, target);
}

/* Lays out the blocks of a side, with a gap of an element behind each block whose place MPI lets us choose. */
static void lay_out(call_t *call, side_t *side, int blocks, uint64_t *state)
{
    const type_t *type = &types[call->type];
    const bool places = is_varied(call->coll) && REDUCE_SCATTER != call->coll;
    const int gap = places ? (int)draw(call->number, state, 3) : 0;
    int at = 0;

    memset(side, 0, sizeof(*side));
    side->blocks = blocks;
    side->apart = side == &call->recv && call->gaps ? 2 : 1;
    for (int i = 0; i < blocks; ++i) {
        side->counts[i] = side_count(call, side, i);
        side->firsts[i] = at;
        side->bytes[i] = (int)((size_t)at * type->size);
        side->offsets[i] = side->bytes[i];
        at += side->counts[i] * side->apart + gap;
        side->handles[i] = type->handle;
        if (2 == side->apart) {
            MT_MPI(MPI_Type_vector(side->counts[i], 1, 2, type->handle, &side->handles[i]));
            MT_MPI(MPI_Type_commit(&side->handles[i]));
        }
    }
    side->size = (size_t)at * type->size;
    side->buffer = mt_buffer_alloc(MT_DEVICE, side->size + 1, 16 * (size_t)draw(call->number, state, 2));
}

/* Puts this rank's own data, as it sends them, into an image of a buffer. */
static void put_own(const call_t *call, const side_t *side, unsigned char *image)
{
    const size_t size = types[call->type].size;

    for (int i = 0; i < side->blocks; ++i) {
        int source, target;

        ends_of(call, side, i, &source, &target);
        for (int k = 0; k < side->counts[i]; ++k) {
            encode(call->type, value(call, source, target, k), image + (size_t)(side->firsts[i] + k) * size);
        }
    }
}

/* Puts what this rank must receive into the image of its receive buffer. */
static void put_result(const call_t *call, unsigned char *image)
{
    const group_t *group = &groups[call->group];
    const side_t *side = &call->recv;
    const size_t size = types[call->type].size;
    const int end = SCAN == call->coll ? group->rank + 1 : EXSCAN == call->coll ? group->rank : group->size;

    for (int i = 0; i < side->blocks && end > 0; ++i) {
        int source, target;

        ends_of(call, side, i, &source, &target);
        for (int k = 0; k < side->counts[i]; ++k) {
            encode(call->type, combines(call->coll) ? combine(call, end, target, k) : value(call, source, target, k),
                   image + (size_t)(side->firsts[i] + k * side->apart) * size);
        }
    }
}

/* Draws a call, and prepares its buffers. */
static call_t *prepare(uint64_t number)
{
    static const unsigned limits[] = {1, 2, 9, 200, 3000, COUNT_MAX};
    call_t *call = calloc(1, sizeof(*call));
    unsigned char *image;
    uint64_t state = 0;
    int send, recv;

    MT_CHECK(call != NULL, "no memory");
    call->number = number;
    call->coll = (coll_t)draw(number, &state, COLLS);
    call->variant = (variant_t)draw(number, &state, VARIANTS);
    call->group = is_neighbor(call->coll) ? COMMS - 1 : (int)draw(number, &state, COMMS - 1);
    call->type = (int)draw(number, &state, sizeof(types) / sizeof(types[0]));
    call->op = (int)draw(number, &state, sizeof(ops) / sizeof(ops[0]));
    call->root =
        is_rooted(call->coll) ? (int)(draw(number, &state, RANKS_MAX) % (unsigned)groups[call->group].size) : 0;
    call->most = draw(number, &state, limits[draw(number, &state, sizeof(limits) / sizeof(limits[0]))] + 1);
    if (PERSISTENT == call->variant && 0 == call->most) {
        call->most = 1; /* without data no kernel is set aside for a request */
    }
    call->in_place = ALLREDUCE == call->coll && 0 == draw(number, &state, 2);
    call->gaps = (ALLTOALLW == call->coll || NEIGHBOR_ALLTOALLW == call->coll) && 0 == draw(number, &state, 2);
    count_blocks(call, &send, &recv);
    lay_out(call, &call->send, send, &state);
    lay_out(call, &call->recv, recv, &state);
    image = mt_host_alloc(call->send.size + call->recv.size + 1);
    put_own(call, &call->send, image);
    mt_buffer_put(&call->send.buffer, image, call->send.size);
    memset(image, UNTOUCHED, call->recv.size + 1);
    if (call->in_place || (BCAST == call->coll && groups[call->group].rank == call->root)) {
        put_own(call, call->in_place ? &call->send : &call->recv, image);
    }
    mt_buffer_put(&call->recv.buffer, image, call->recv.size);
    put_result(call, image);
    call->expected = image;
    return call;
}

#define CALL(Name_, name_, ...)                                                                                        \
    (BLOCKING == call->variant      ? MPI_##Name_(__VA_ARGS__, comm)                                                   \
     : NONBLOCKING == call->variant ? MPI_I##name_(__VA_ARGS__, comm, &call->request)                                  \
                                    : PERSISTENT_INIT(Name_)(__VA_ARGS__, comm, MPI_INFO_NULL, &call->request))

static int begin(call_t *call)
{
    const MPI_Comm comm = groups[call->group].comm;
    const MPI_Datatype type = types[call->type].handle;
    const MPI_Op op = ops[call->op];
    const side_t *s = &call->send, *r = &call->recv;
    const int count = (int)call->most, root = call->root;
    const void *in = call->in_place ? MPI_IN_PLACE : s->buffer.data;
    void *out = r->buffer.data;

    switch (call->coll) {
    case ALLREDUCE:
        return CALL(Allreduce, allreduce, in, out, count, type, op);
    case REDUCE:
        return CALL(Reduce, reduce, in, out, count, type, op, root);
    case SCAN:
        return CALL(Scan, scan, in, out, count, type, op);
    case EXSCAN:
        return CALL(Exscan, exscan, in, out, count, type, op);
    case REDUCE_SCATTER_BLOCK:
        return CALL(Reduce_scatter_block, reduce_scatter_block, in, out, count, type, op);
    case REDUCE_SCATTER:
        return CALL(Reduce_scatter, reduce_scatter, in, out, s->counts, type, op);
    case BCAST:
        return CALL(Bcast, bcast, out, count, type, root);
    case GATHER:
        return CALL(Gather, gather, in, count, type, out, count, type, root);
    case GATHERV:
        return CALL(Gatherv, gatherv, in, s->counts[0], type, out, r->counts, r->firsts, type, root);
    case SCATTER:
        return CALL(Scatter, scatter, in, count, type, out, count, type, root);
    case SCATTERV:
        return CALL(Scatterv, scatterv, in, s->counts, s->firsts, type, out, r->counts[0], type, root);
    case ALLGATHER:
        return CALL(Allgather, allgather, in, count, type, out, count, type);
    case ALLGATHERV:
        return CALL(Allgatherv, allgatherv, in, s->counts[0], type, out, r->counts, r->firsts, type);
    case ALLTOALL:
        return CALL(Alltoall, alltoall, in, count, type, out, count, type);
    case ALLTOALLV:
        return CALL(Alltoallv, alltoallv, in, s->counts, s->firsts, type, out, r->counts, r->firsts, type);
    case NEIGHBOR_ALLGATHER:
        return CALL(Neighbor_allgather, neighbor_allgather, in, count, type, out, count, type);
    case NEIGHBOR_ALLGATHERV:
        return CALL(Neighbor_allgatherv, neighbor_allgatherv, in, s->counts[0], type, out, r->counts, r->firsts, type);
    case NEIGHBOR_ALLTOALL:
        return CALL(Neighbor_alltoall, neighbor_alltoall, in, count, type, out, count, type);
    case NEIGHBOR_ALLTOALLV:
        return CALL(Neighbor_alltoallv, neighbor_alltoallv, in, s->counts, s->firsts, type, out, r->counts, r->firsts,
                    type);
    default:
        break;
    }
    /* With gaps one vector is received in place of many elements. */
    {
        static const int ones[RANKS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        const int *counts = call->gaps ? ones : r->counts;

        return ALLTOALLW == call->coll
                   ? CALL(Alltoallw, alltoallw, in, s->counts, s->bytes, s->handles, out, counts, r->bytes, r->handles)
                   : CALL(Neighbor_alltoallw, neighbor_alltoallw, in, s->counts, s->offsets, s->handles, out, counts,
                          r->offsets, r->handles);
    }
}

static void verify(call_t *call)
{
    const group_t *group = &groups[call->group];
    /* MPI leaves the result of the first rank of an exclusive scan open. */
    const size_t size = EXSCAN == call->coll && 0 == group->rank ? 0 : call->recv.size;
    unsigned char *seen = mt_host_alloc(size + 1);

    mt_buffer_get(&call->recv.buffer, seen, size);
    for (size_t i = 0; i < size; ++i) {
        if (seen[i] != call->expected[i]) {
            mt_fail(__FILE__, __LINE__,
                    "seed %llu, call %llu: %s %s, communicator %d, %zu bytes each, %s, at most %u, root %d%s%s: byte "
                    "%zu of %zu is 0x%02x and not 0x%02x",
                    (unsigned long long)seed, (unsigned long long)call->number, variant_names[call->variant],
                    coll_names[call->coll], call->group, types[call->type].size, op_names[call->op], call->most,
                    call->root, call->in_place ? ", in place" : "", call->gaps ? ", gaps" : "", i, size, seen[i],
                    call->expected[i]);
            break;
        }
    }
    free(seen);
}

static void finish(call_t *call)
{
    verify(call);
    for (int i = 0; i < call->recv.blocks && call->gaps; ++i) {
        MT_MPI(MPI_Type_free(&call->recv.handles[i]));
    }
    mt_buffer_free(&call->send.buffer, "send buffer");
    mt_buffer_free(&call->recv.buffer, "receive buffer");
    free(call->expected);
    free(call);
}

/* A persistent call is started twice, unless its result has become its operand. */
static void repeat(call_t *call)
{
    for (int i = 0; i < (call->in_place ? 1 : 2); ++i) {
        MT_MPI(MPI_Start(&call->request));
        MT_MPI(MPI_Wait(&call->request, MPI_STATUS_IGNORE));
    }
    MT_MPI(MPI_Request_free(&call->request));
}

/* Ends nonblocking calls, in an order of this rank's own. */
static void end_all(call_t **pending, int *count_p)
{
    while (*count_p > 0) {
        const int i = (int)(mt_mix(seed, calls, (uint64_t)(mt_rank * IN_FLIGHT + *count_p)) % (uint64_t)*count_p);

        MT_MPI(MPI_Wait(&pending[i]->request, MPI_STATUS_IGNORE));
        finish(pending[i]);
        pending[i] = pending[--*count_p];
    }
}

static void make_calls(double seconds, uint64_t most)
{
    const double until = mt_now() + seconds;
    call_t *pending[IN_FLIGHT];
    int count = 0, going = 1, all[RANKS_MAX];

    while (going && calls < most) {
        call_t *call = prepare(++calls);

        if (0 == mt_mix(seed, calls, (uint64_t)mt_rank) % 16) {
            usleep((useconds_t)(mt_mix(calls, seed, (uint64_t)mt_rank) % 2000)); /* some rank is late */
        }
        MT_MPI(begin(call));
        if (NONBLOCKING == call->variant) {
            pending[count++] = call;
        } else {
            if (PERSISTENT == call->variant) {
                repeat(call);
            }
            finish(call);
        }
        if (IN_FLIGHT == count || 0 == calls % 7) {
            end_all(pending, &count);
        }
        if (0 == calls % AGREE_EVERY) {
            going = mt_now() < until && 0 == mt_failures();
            mt_allgather(MPI_COMM_WORLD, &going, all, sizeof(going));
            for (int rank = 0; rank < mt_size; ++rank) {
                going = going && all[rank];
            }
        }
    }
    end_all(pending, &count);
}

static void open_group(group_t *group, MPI_Comm comm)
{
    group->comm = comm;
    MT_MPI(MPI_Comm_rank(comm, &group->rank));
    MT_MPI(MPI_Comm_size(comm, &group->size));
    group->from = (group->rank + group->size - 1) % group->size;
    group->to = (group->rank + 1) % group->size;
}

/* The world, its ranks backwards, a duplicate, a part of the ranks, and a ring. */
static void open_groups(void)
{
    const int next = (mt_rank + 1) % mt_size, previous = (mt_rank + mt_size - 1) % mt_size, weight = 1;
    MPI_Comm comm;

    open_group(&groups[0], MPI_COMM_WORLD);
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, -mt_rank, &comm));
    open_group(&groups[1], comm);
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    open_group(&groups[2], comm);
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, mt_rank % 2, 0, &comm));
    open_group(&groups[3], comm);
    MT_MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, &weight, 1, &next, &weight, MPI_INFO_NULL, 0,
                                          &comm));
    open_group(&groups[4], comm);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 3;
    const MPI_Datatype handles[] = {MPI_DOUBLE, MPI_FLOAT, MPI_INT64_T, MPI_INT32_T, MPI_INT16_T, MPI_UINT8_T};
    static const size_t sizes[] = {8, 4, 8, 4, 2, 1};
    uint64_t staged, seeds[RANKS_MAX];

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2) || mt_size > RANKS_MAX) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    for (int i = 0; i < 6; ++i) {
        types[i] = (type_t){handles[i], sizes[i]};
    }
    ops[0] = MPI_SUM;
    ops[1] = MPI_MAX;
    ops[2] = MPI_MIN;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    mt_allgather(MPI_COMM_WORLD, &seed, seeds, sizeof(seed));
    seed = seeds[0];
    if (0 == mt_rank) {
        printf("test_storm: seed %llu\n", (unsigned long long)seed);
        fflush(stdout);
    }
    open_groups();
    staged = mt_staged(MPI_COMM_WORLD); /* by Open MPI itself, whose own buffers are device memory on the twin */
    make_calls(seconds, argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_MAX);
    staged = mt_staged(MPI_COMM_WORLD) - staged;
    MT_CHECK(0 == staged, "%llu calls were staged", (unsigned long long)staged);
    MT_CHECK(calls < 200 || mt_served(MPI_COMM_WORLD) > 0, "no all-reduce was served by kernels");
    if (0 == mt_rank) {
        printf("test_storm: %llu calls\n", (unsigned long long)calls);
    }
    for (int i = 1; i < COMMS; ++i) {
        MT_MPI(MPI_Comm_free(&groups[i].comm));
    }
    return mt_finish();
}
