/*
 * Staging of device buffers, call by call: every collective that MPI has, blocking, nonblocking and persistent, with
 * layouts of every kind. What each rank receives is computed here from the ranks' numbers; whole buffers are compared,
 * so that a byte written between the elements, or around them, is found. A counter proves that the calls were staged.
 * When a persistent request has been made, the arrays that it was made from are out of reach, and types and operations
 * are freed.
 * With --world as its first argument, on MPI_COMM_WORLD alone. With --starts N, persistent requests alone, started so
 * often.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/stage_model.h"

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PERSISTENT_INIT(Name_) MPIX_##Name_##_init
#else
#define PERSISTENT_INIT(Name_) MPI_##Name_##_init
#endif

#define ROUNDS 3 /* starts of a persistent request, unless --starts N asks for another number */

/* On several nodes, one persistent request of so many is tried; no divisor of the number of layouts. */
#define PERSISTENT_EVERY 17

static const char *const variant_names[VARIANTS] = {"blocking", "nonblocking", "persistent"};

/* An element of a type is `ints` integers, at `first`, `first + step` and so on. */
static mt_buffer_t arenas[2][2]; /* send and receive; device and host memory */
static char *images[2];
static char *seen;
static long passed, failed, staged_calls, served_calls;
static bool all_device; /* the twin, unless --kinds says that coll_mscclpp_twin_shared_only is set */
static bool without;    /* the component: shows what Open MPI alone gets wrong */
static int starts = ROUNDS;

/* ---- The calls ---- */

#define CALL(Name_, name_, ...)                                                                                        \
    (BLOCKING == call->variant      ? MPI_##Name_(__VA_ARGS__, comm)                                                   \
     : NONBLOCKING == call->variant ? MPI_I##name_(__VA_ARGS__, comm, request)                                         \
                                    : PERSISTENT_INIT(Name_)(__VA_ARGS__, comm, MPI_INFO_NULL, request))

static MPI_Op op_of(const call_t *call)
{
    return call->send_type == &sm_types[PLAIN] ? MPI_SUM : 2 == call->send_type->ints ? sm_affine_op : sm_sum_op;
}

/* Makes a call with the arguments of two sides: those of the call, or copies. */
static int start(const call_t *call, const side_t *s, const side_t *r, MPI_Op op, MPI_Request *request)
{
    MPI_Comm comm = call->group->comm;
    int rank = call->group->rank;
    bool root_only = is_rooted(call->collective);
    const void *sbuf = call->in_place && (!root_only || call->is_root) ? MPI_IN_PLACE : sm_address(s);
    void *rbuf = r->blocks > 0 ? sm_address(r) : NULL;
    MPI_Datatype stype = s->type->handle, rtype = r->type->handle;
    int even = 2 * call->unit; /* Open MPI looks at both counts, used or not */
    int scount = s->blocks > 0 ? s->counts[0] : even / s->type->ints;
    int rcount = r->blocks > 0 ? r->counts[0] : even / r->type->ints;
    int in_send = sm_ints(s) / s->type->ints;

    sm_set_op_type(call->send_type);
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
        return s->blocks > 0 ? CALL(Bcast, bcast, sm_address(s), scount, stype, call->root)
                             : CALL(Bcast, bcast, rbuf, rcount, rtype, call->root);
    case EXSCAN:
        return CALL(Exscan, exscan, sbuf, rbuf, in_send, stype, op);
    case GATHER:
        return CALL(Gather, gather, sbuf, scount, stype, rbuf, rcount, rtype, call->root);
    case GATHERV:
        return CALL(Gatherv, gatherv, sbuf, scount, stype, rbuf, rbuf == NULL ? NULL : r->counts,
                    rbuf == NULL ? NULL : r->displs, rtype, call->root);
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
        return CALL(Scatter, scatter, s->blocks > 0 ? sm_address(s) : NULL, scount, stype, rbuf, rcount, rtype,
                    call->root);
    case SCATTERV:
        rbuf = call->in_place && call->is_root ? MPI_IN_PLACE : rbuf;
        return CALL(Scatterv, scatterv, s->blocks > 0 ? sm_address(s) : NULL, s->blocks > 0 ? s->counts : NULL,
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
                    variant_names[call->variant], sm_collective_names[call->collective], call->group->name,
                    call->send_type->name, call->recv_type->name, call->unit, call->root,
                    call->in_place ? ", in place" : "", call->mixed ? ", mixed types" : "", round, (long)i - MARGIN,
                    which, (unsigned char)seen[i], (unsigned char)side->image[i]);
            return false;
        }
    }
    return true;
}

/* Integers of a side that lie in device memory and that MPI lets this rank touch. */
static int touched(const side_t *side)
{
    return all_device || MT_DEVICE == side->buffer->kind ? sm_ints(side) : 0;
}

/* A rank that touches no device memory has nothing to stage; MPI_IN_PLACE stands for one of the buffers of a call. */
static bool touches(const call_t *call)
{
    bool alone = !call->group->inter && 1 == call->group->own_size;
    bool scattered = SCATTER == call->collective || SCATTERV == call->collective;
    bool replaced = call->in_place && (!is_rooted(call->collective) || call->is_root);
    bool silent = is_neighbor(call->collective) && 0 == call->group->out;
    int sent = silent || (replaced && !scattered) ? 0 : touched(&call->send);
    int received = replaced && scattered ? 0 : touched(&call->recv);

    /* Open MPI itself answers a broadcast to nobody. */
    return sent + received > 0 && !(alone && BCAST == call->collective);
}

static bool kernels_may_serve(const call_t *call)
{
    const bool reduces = SCAN == call->collective || EXSCAN == call->collective || ALLREDUCE == call->collective ||
                         REDUCE == call->collective || REDUCE_SCATTER == call->collective ||
                         REDUCE_SCATTER_BLOCK == call->collective;

    return !call->group->inter && (!reduces || &sm_types[PLAIN] == call->send_type) &&
           !mt_parameter_is("algorithm", "stage") &&
           !(NONBLOCKING == call->variant && mt_parameter_is("mixed_buffers", "1"));
}

/*
 * Makes a persistent request from arguments that end with this function. Open MPI itself keeps no references to types
 * and operations, so they stay where it serves the request.
 */
static int make_and_forget(const call_t *call, MPI_Request *request)
{
    MPI_Op op = op_of(call);
    const side_t *sides = sm_lend(call, !without, &op);
    const int code = start(call, &sides[0], &sides[1], op, request);

    sm_take_back(call);
    return code;
}

static void run_call(call_t *call)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int rounds = PERSISTENT == call->variant ? starts : 1;
    bool good = true;
    /* Whether ranks pass different kinds of memory: the first one of them to come decides for all. */
    const bool mixed = call->send.buffer->kind != call->recv.buffer->kind;

    sm_describe(call);
    for (int round = 0; round < rounds; ++round) {
        uint64_t before = without ? 0 : mt_staged(call->group->comm);
        uint64_t served = without ? 0 : mt_served(call->group->comm);
        int code = MPI_SUCCESS;

        sm_fill(call, round);
        mt_buffer_put(call->send.buffer, call->send.image, call->send.used);
        mt_buffer_put(call->recv.buffer, call->recv.image, call->recv.used);
        if (0 == round) {
            code = PERSISTENT == call->variant ? make_and_forget(call, &request)
                                               : start(call, &call->send, &call->recv, op_of(call), &request);
        }
        if (PERSISTENT == call->variant && MPI_SUCCESS == code) {
            code = MPI_Start(&request);
        }
        if (BLOCKING != call->variant && MPI_SUCCESS == code) {
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (MPI_SUCCESS != code) {
            mt_fail(__FILE__, __LINE__, "%s %s on %s returned error %d", variant_names[call->variant],
                    sm_collective_names[call->collective], call->group->name, code);
            good = false;
        }
        good = compare(call, &call->send, "send", round) && good;
        sm_expect(call, round);
        good = compare(call, &call->recv, "receive", round) && good;
        if (without || mt_staged(call->group->comm) > before) {
            staged_calls += !without;
            if (!without && kernels_may_serve(call) && !mixed) {
                mt_fail(__FILE__, __LINE__, "%s %s on %s%s, root %d: staged, though kernels can serve it",
                        variant_names[call->variant], sm_collective_names[call->collective], call->group->name,
                        call->in_place ? ", in place" : "", call->root);
                good = false;
            }
        } else if (touches(call) && kernels_may_serve(call)) {
            if (mt_served(call->group->comm) == served && !mixed) {
                mt_fail(__FILE__, __LINE__, "%s %s on %s%s, root %d: not served by kernels",
                        variant_names[call->variant], sm_collective_names[call->collective], call->group->name,
                        call->in_place ? ", in place" : "", call->root);
                good = false;
            }
            served_calls += 1;
        } else if (touches(call)) {
            mt_fail(__FILE__, __LINE__, "%s %s on %s%s, root %d: not staged", variant_names[call->variant],
                    sm_collective_names[call->collective], call->group->name, call->in_place ? ", in place" : "",
                    call->root);
            good = false;
        }
    }
    if (PERSISTENT == call->variant) {
        MT_MPI(MPI_Request_free(&request));
        sm_check_ended(call);
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
    /* Where it works in the buffer itself, it also uses the rest of it, which MPI leaves undefined. */
    return (without || (!all_device && MT_DEVICE != call->recv.buffer->kind)) && REDUCE_SCATTER == call->collective &&
           call->in_place;
}

/*
 * A persistent request takes a team of its own. On several nodes that takes tens of milliseconds, so few requests stand
 * for all. Equal on all ranks.
 */
static bool left_out(const call_t *call)
{
    static int requests;

    return PERSISTENT == call->variant && call->group->spans_nodes && 0 != ++requests % PERSISTENT_EVERY;
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
                               .send_type = &sm_types[layouts[i].send],
                               .recv_type = &sm_types[layouts[i].recv]};

                if (!applies(call.collective, group) ||
                    (in_place && (!has_in_place(call.collective) || group->inter))) {
                    continue;
                }
                call.send.buffer = &arenas[0][send_kind];
                call.recv.buffer = &arenas[1][recv_kind];
                if (beyond_open_mpi(&call)) {
                    continue;
                }
                if (is_reduction(call.collective) && call.send_type != call.recv_type) {
                    continue;
                }
                if (in_place && !is_rooted(call.collective)) {
                    call.send_type = call.recv_type; /* says how long blocks are; MPI does not look at it */
                }
                if (left_out(&call)) {
                    continue;
                }
                call.send.image = images[0];
                call.recv.image = images[1];
                run_roots(&call);
            }
        }
    }
}

/* ---- Groups ---- */

/* Whether these ranks are on several nodes, real ones or imitated ones. */
static bool spans_nodes(MPI_Comm comm)
{
    MPI_Comm node;
    int size, node_size;

    MPI_Comm_size(comm, &size);
    MT_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MPI_Comm_size(node, &node_size);
    MPI_Comm_free(&node);
    return size > 1 && (!mt_parameter_is("ranks_per_node", "0") || node_size < size);
}

static void intra(group_t *group, const char *name, MPI_Comm comm)
{
    memset(group, 0, sizeof(*group));
    group->name = name;
    group->comm = comm;
    MPI_Comm_rank(comm, &group->rank);
    MPI_Comm_size(comm, &group->own_size);
    mt_allgather(comm, &mt_rank, group->own, sizeof(int));
    group->spans_nodes = spans_nodes(comm);
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
    group->spans_nodes = false; /* kernels serve none */
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
    int in = 0, out = 0, sources[RANKS_MAX], destinations[RANKS_MAX], weights[RANKS_MAX];

    for (int i = 0; i < RANKS_MAX; ++i) {
        weights[i] = 1;
    }
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
    MT_MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, weights, out, destinations, weights,
                                          MPI_INFO_NULL, 0, &comm));
    intra(group, "a distributed graph", comm);
    group->topology = true;
    group->in = in;
    group->out = out;
    memcpy(group->sources, sources, sizeof(sources));
    memcpy(group->destinations, destinations, sizeof(destinations));
}
static void report(void)
{
    long own[3] = {passed, failed, staged_calls}, all[3 * RANKS_MAX], sum[3] = {0, 0, 0};

    mt_allgather(MPI_COMM_WORLD, own, all, sizeof(own));
    for (int i = 0; i < 3 * mt_size; ++i) {
        sum[i % 3] += all[i];
    }
    if (0 == mt_rank) {
        printf("%ld passed, %ld failed; %ld calls were staged\n", sum[0], sum[1], sum[2]);
    }
}

int main(int argc, char **argv)
{
    group_t groups[7];
    bool world, persistent_only;
    int count = 0;

    (void)mallopt(M_PERTURB, 0x5a); /* whoever uses what was freed finds no valid data there */
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    without = argc > 1 && 0 == strcmp(argv[1], "--without");
    world = argc > 1 && 0 == strcmp(argv[1], "--world");
    persistent_only = argc > 2 && 0 == strcmp(argv[1], "--starts");
    starts = persistent_only ? atoi(argv[2]) : ROUNDS;
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    MT_CHECK(mt_size <= RANKS_MAX, "at most %d ranks", RANKS_MAX);
    all_device = mt_twin && !(argc > 1 && 0 == strcmp(argv[argc - 1], "--kinds"));
    sm_open();
    for (int i = 0; i < 2; ++i) {
        arenas[i][0] = mt_buffer_alloc(MT_DEVICE, ARENA, 0);
        arenas[i][1] = mt_buffer_alloc(MT_HOST, ARENA, 0);
        images[i] = mt_host_alloc(ARENA);
    }
    seen = mt_host_alloc(ARENA);

    intra(&groups[count++], "the world", MPI_COMM_WORLD);
    if (!world) {
        inter(&groups[count++]);
        intra(&groups[count++], "MPI_COMM_SELF", MPI_COMM_SELF);
        cart(&groups[count++], 0);
        if (mt_size > 2) {
            cart(&groups[count++], 1);
        }
        graph(&groups[count++]);
        dist_graph(&groups[count++]);
    }
    for (int i = 0; i < count; ++i) {
        for (int variant = persistent_only ? PERSISTENT : BLOCKING; variant < VARIANTS; ++variant) {
            run_group(&groups[i], (variant_t)variant, 0, 0);
            if (!all_device) {
                run_group(&groups[i], (variant_t)variant, 0, 1);
                run_group(&groups[i], (variant_t)variant, 1, 0);
            }
        }
    }
    for (int i = 0; i < count; ++i) {
        if (MPI_COMM_WORLD != groups[i].comm && MPI_COMM_SELF != groups[i].comm) {
            MT_MPI(MPI_Comm_free(&groups[i].comm));
        }
    }
    sm_close();
    for (int i = 0; i < 2; ++i) {
        mt_buffer_free(&arenas[i][0], "a device buffer");
        mt_buffer_free(&arenas[i][1], "a host buffer");
    }
    report();
    return mt_finish();
}
