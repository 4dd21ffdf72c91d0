/*
 * Neighbourhood collectives on topologies in which two ranks share several edges, a rank is its own neighbour, or a
 * rank has more edges than a node has ranks. What an edge carries depends on its two ranks and on its place among
 * their edges, so a block that takes the place of another one is found. Kernels have to serve every call. With "staged"
 * as an argument each call has to be staged, and with "host" buffers are host memory, which is left to Open MPI. With
 * "queued" calls are queued in a stream, captured in graphs and made by requests, and with "waits" each call has to
 * wait for its stream.
 */
#include <stdlib.h>
#include <string.h>

#include "mpix/include/mpix_mscclpp_requests.h"
#include "test/mpi/mpi_queued.h"
#include "test/mpi/mpi_sums.h"

#define EDGES_MAX 512
#define ELEMENTS_MAX 6 /* of an edge */
#define GAP 3          /* elements behind each block that nobody may write */
#define UNTOUCHED (-7)
#define ROUNDS 2
#define RESTARTS 3 /* of a persistent request */

typedef enum { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, COLLECTIVES } collective_t;

static const char *const names[COLLECTIVES] = {"Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall",
                                               "Neighbor_alltoallv", "Neighbor_alltoallw"};

typedef enum { BLOCKING, NONBLOCKING, PERSISTENT, VARIANTS, QUEUED, REQUEST } variant_t;

typedef struct {
    int peer; /* MPI_PROC_NULL: none */
    int turn; /* tells apart the edges from one rank to another; equal at both ends */
} edge_t;

typedef struct {
    const char *name;
    MPI_Comm comm;
    int outs, ins;
    edge_t out[EDGES_MAX], in[EDGES_MAX];
} topology_t;

static bool host, staged, queued, waits;
static void *stream;              /* of queued calls */
static MPIX_Mscclpp_request made; /* the request that `start` makes as the variant REQUEST */
static MPI_Datatype spread;       /* one integer of three */

/* Elements of an edge. All edges of a rank have as many where the collective wants that. */
static int count_of(collective_t collective, int from, int to, int turn)
{
    switch (collective) {
    case ALLGATHER:
    case ALLTOALL:
        return ELEMENTS_MAX - 1;
    case ALLGATHERV:
        return (from + 1) % ELEMENTS_MAX;
    default:
        return (from * 7 + to * 3 + turn * 5) % ELEMENTS_MAX;
    }
}

static int value_of(collective_t collective, int round, int from, int to, int turn, int index)
{
    const bool same = ALLGATHER == collective || ALLGATHERV == collective;

    return (int)(mt_mix((uint64_t)round * 100 + (uint64_t)from, same ? 0 : (uint64_t)to * 1000 + (uint64_t)turn,
                        (uint64_t)index) &
                 0x3fffffff);
}

/* Blocks of integers, or of every third one, from the last edge to the first, with gaps between them. */
typedef struct {
    int edges;
    int counts[EDGES_MAX], displs[EDGES_MAX];
    MPI_Aint offsets[EDGES_MAX];
    MPI_Datatype types[EDGES_MAX];
    int elements; /* of the buffer */
    mt_buffer_t buffer;
    int *image;
} side_t;

static side_t sides[2];

static void lay_out(side_t *side, collective_t collective, const topology_t *topology, bool out, int step)
{
    const edge_t *edges = out ? topology->out : topology->in;
    const bool regular = ALLGATHER == collective || ALLTOALL == collective;
    int at = 0;

    side->edges = out ? topology->outs : topology->ins;
    for (int n = 0; n < side->edges; ++n) {
        const int i = regular ? n : side->edges - 1 - n;
        const edge_t *edge = &edges[i];

        side->counts[i] = MPI_PROC_NULL == edge->peer ? 1 /* not used */
                                                      : count_of(collective, out ? mt_rank : edge->peer,
                                                                 out ? edge->peer : mt_rank, edge->turn);
        side->counts[i] = regular ? ELEMENTS_MAX - 1 : side->counts[i];
        side->displs[i] = at;
        side->offsets[i] = (MPI_Aint)at * step * (MPI_Aint)sizeof(int);
        side->types[i] = 1 == step ? MPI_INT : spread;
        at += side->counts[i] + (regular ? 0 : GAP);
    }
    side->elements = (at + ELEMENTS_MAX) * step;
    for (int i = 0; i < side->elements; ++i) {
        side->image[i] = UNTOUCHED;
    }
}

static void write_block(side_t *side, collective_t collective, int round, int place, int from, const edge_t *edge,
                        int to, int step)
{
    for (int i = 0; i < side->counts[place]; ++i) {
        side->image[(side->displs[place] + i) * step] = value_of(collective, round, from, to, edge->turn, i);
    }
}

static void check(const side_t *side, collective_t collective, const topology_t *topology, const char *what)
{
    static int seen[EDGES_MAX * (ELEMENTS_MAX + GAP) * 3 + ELEMENTS_MAX * 3];

    mt_buffer_get(&side->buffer, seen, (size_t)side->elements * sizeof(int));
    for (int i = 0; i < side->elements; ++i) {
        if (seen[i] != side->image[i]) {
            mt_fail(__FILE__, __LINE__, "%s on %s: integer %d of the %s buffer is %d and not %d", names[collective],
                    topology->name, i, what, seen[i], side->image[i]);
            return;
        }
    }
}

static int start(collective_t collective, variant_t variant, const topology_t *topology, MPI_Datatype stype,
                 MPI_Datatype rtype, MPI_Request *request)
{
    const side_t *s = &sides[0], *r = &sides[1];
    const void *sbuf = s->buffer.data;
    void *rbuf = r->buffer.data;
    const int count = ALLGATHERV == collective ? count_of(collective, mt_rank, 0, 0) : ELEMENTS_MAX - 1;
    MPI_Comm comm = topology->comm;

#define CALL(name_, ...)                                                                                               \
    (BLOCKING == variant     ? MPI_N##name_(__VA_ARGS__, comm)                                                         \
     : QUEUED == variant     ? MPIX_Mscclpp_n##name_##_enqueue(__VA_ARGS__, comm, stream)                              \
     : REQUEST == variant    ? MPIX_Mscclpp_n##name_##_init(__VA_ARGS__, comm, &made)                                  \
     : PERSISTENT == variant ? PERSISTENT_INIT(N##name_)(__VA_ARGS__, comm, MPI_INFO_NULL, request)                    \
                             : MPI_In##name_(__VA_ARGS__, comm, request))
    switch (collective) {
    case ALLGATHER:
        return CALL(eighbor_allgather, sbuf, count, stype, rbuf, count, rtype);
    case ALLGATHERV:
        return CALL(eighbor_allgatherv, sbuf, count, stype, rbuf, r->counts, r->displs, rtype);
    case ALLTOALL:
        return CALL(eighbor_alltoall, sbuf, count, stype, rbuf, count, rtype);
    case ALLTOALLV:
        return CALL(eighbor_alltoallv, sbuf, s->counts, s->displs, stype, rbuf, r->counts, r->displs, rtype);
    default:
        return CALL(eighbor_alltoallw, sbuf, s->counts, s->offsets, s->types, rbuf, r->counts, r->offsets, r->types);
    }
#undef CALL
}

/* A rank of which no edge carries anything need not take part, and its call is counted by nobody. */
static int touched(collective_t collective, const topology_t *topology)
{
    int sum = 0;

    for (int i = 0; i < topology->outs; ++i) {
        const edge_t *edge = &topology->out[i];
        sum += MPI_PROC_NULL == edge->peer ? 0 : count_of(collective, mt_rank, edge->peer, edge->turn);
    }
    for (int i = 0; i < topology->ins; ++i) {
        const edge_t *edge = &topology->in[i];
        sum += MPI_PROC_NULL == edge->peer ? 0 : count_of(collective, edge->peer, mt_rank, edge->turn);
    }
    return sum;
}

/* Lays out both buffers, and puts what this rank sends into the first. */
static void fill(collective_t collective, const topology_t *topology, int send_step, int recv_step, int round)
{
    const bool same = ALLGATHER == collective || ALLGATHERV == collective;

    lay_out(&sides[0], collective, topology, true, send_step);
    lay_out(&sides[1], collective, topology, false, recv_step);
    for (int i = 0; i < topology->outs && !same; ++i) {
        const edge_t *edge = &topology->out[i];
        write_block(&sides[0], collective, round, i, mt_rank, edge, edge->peer, send_step);
    }
    for (int i = 0; i < ELEMENTS_MAX && same; ++i) {
        sides[0].image[i * send_step] = value_of(collective, round, mt_rank, 0, 0, i);
    }
    mt_buffer_put(&sides[0].buffer, sides[0].image, (size_t)sides[0].elements * sizeof(int));
    mt_buffer_put(&sides[1].buffer, sides[1].image, (size_t)sides[1].elements * sizeof(int));
}

/* Checks both buffers after the call. */
static void check_both(collective_t collective, const topology_t *topology, int recv_step, int round)
{
    check(&sides[0], collective, topology, "send");
    for (int i = 0; i < topology->ins; ++i) {
        const edge_t *edge = &topology->in[i];
        if (MPI_PROC_NULL != edge->peer) {
            write_block(&sides[1], collective, round, i, edge->peer, edge, mt_rank, recv_step);
        }
    }
    check(&sides[1], collective, topology, "receive");
}

static void run(collective_t collective, variant_t variant, const topology_t *topology, int send_step, int recv_step,
                int round)
{
    const uint64_t served_before = mt_served(topology->comm), staged_before = mt_staged(topology->comm);
    MPI_Datatype stype = 1 == send_step ? MPI_INT : spread, rtype = 1 == recv_step ? MPI_INT : spread;
    MPI_Request request = MPI_REQUEST_NULL;

    fill(collective, topology, send_step, recv_step, round);
    MT_MPI(start(collective, variant, topology, stype, rtype, &request));
    for (int restart = 0; restart < RESTARTS && PERSISTENT == variant; ++restart) {
        fill(collective, topology, send_step, recv_step, round + restart);
        MT_MPI(MPI_Start(&request));
        MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        check_both(collective, topology, recv_step, round + restart);
    }
    if (PERSISTENT == variant) {
        MT_MPI(MPI_Request_free(&request));
    } else {
        MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        check_both(collective, topology, recv_step, round);
    }
    if (touched(collective, topology) > 0) {
        MT_CHECK(staged == (mt_staged(topology->comm) > staged_before), "%s on %s: %s", names[collective],
                 topology->name, staged ? "not staged" : "staged");
        MT_CHECK((!host && !staged) == (mt_served(topology->comm) > served_before), "%s on %s: %s by kernels",
                 names[collective], topology->name, host || staged ? "served" : "not served");
    }
}

/* A call in a stream, which has to be queued, or with "waits" has to wait. */
static void run_queued(collective_t collective, const topology_t *topology, int send_step, int recv_step)
{
    const int counter = waits ? MPIX_MSCCLPP_QUERY_WAITED : MPIX_MSCCLPP_QUERY_QUEUED;
    const MPI_Count before = mq_asked(topology->comm, counter);
    MPI_Datatype stype = 1 == send_step ? MPI_INT : spread, rtype = 1 == recv_step ? MPI_INT : spread;

    fill(collective, topology, send_step, recv_step, 0);
    MT_MPI(start(collective, QUEUED, topology, stype, rtype, NULL));
    mq_stream_wait(stream);
    check_both(collective, topology, recv_step, 0);
    MT_CHECK(mq_asked(topology->comm, counter) == before + 1, "%s on %s: %s", names[collective], topology->name,
             waits ? "queued" : "not queued");
}

/* A call in a graph that is launched in each round with other data. With "waits" it has to be refused. */
static void run_captured(collective_t collective, const topology_t *topology, int step)
{
    MPI_Datatype type = 1 == step ? MPI_INT : spread;
    int code, class, expected;
    void *graph;

    MT_MPI(MPIX_Mscclpp_error_class(MPIX_MSCCLPP_ERR_CAPTURE, &expected));
    fill(collective, topology, step, step, 0);
    mq_capture_begin(stream);
    code = start(collective, QUEUED, topology, type, type, NULL);
    graph = mq_capture_end(stream);
    MT_MPI(MPI_Error_class(code, &class));
    MT_CHECK(class == (waits ? expected : MPI_SUCCESS), "%s on %s in a graph: error class %d", names[collective],
             topology->name, class);
    for (int round = 0; round < ROUNDS && !waits; ++round) {
        fill(collective, topology, step, step, round);
        mq_graph_launch(graph, stream);
        mq_stream_wait(stream);
        check_both(collective, topology, step, round);
    }
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graph));
    }
}

/* The lists of a side no longer belong to the call that was made from them. */
static void spoil(side_t *side)
{
    memset(side->counts, 0xff, sizeof(side->counts));
    memset(side->displs, 0xff, sizeof(side->displs));
    memset(side->offsets, 0xff, sizeof(side->offsets));
    for (int i = 0; i < EDGES_MAX; ++i) {
        side->types[i] = MPI_DATATYPE_NULL;
    }
}

/*
 * A request that is started in each round with other data, and whose lists are overwritten when it has been made. With
 * "waits" it cannot be prepared.
 */
static void run_request(collective_t collective, const topology_t *topology, int step, bool by_kernels)
{
    static side_t kept[2];
    MPI_Datatype type = 1 == step ? MPI_INT : spread;
    int code, class;

    fill(collective, topology, step, step, 0);
    MT_MPI(start(collective, REQUEST, topology, type, type, NULL));
    spoil(&sides[0]);
    spoil(&sides[1]);
    MT_MPI(by_kernels ? MPIX_Mscclpp_attach_kernels(made, stream) : MPIX_Mscclpp_attach_stream(made, stream));
    code = MPIX_Mscclpp_prepare(1, &made);
    MT_MPI(MPI_Error_class(code, &class));
    MT_CHECK(class == (waits ? MPI_ERR_UNSUPPORTED_OPERATION : MPI_SUCCESS), "%s on %s as a request: error class %d",
             names[collective], topology->name, class);
    for (int round = 0; round < ROUNDS && MPI_SUCCESS == code; ++round) {
        fill(collective, topology, step, step, round);
        memcpy(kept, sides, sizeof(kept));
        spoil(&sides[0]);
        spoil(&sides[1]);
        MT_MPI(MPIX_Mscclpp_start(1, &made));
        if (by_kernels) {
            MT_MPI(MPIX_Mscclpp_pready(0, 0, made));
        }
        MT_MPI(MPIX_Mscclpp_wait(1, &made));
        memcpy(sides, kept, sizeof(kept));
        check_both(collective, topology, step, round);
    }
    MT_MPI(MPIX_Mscclpp_request_free(&made));
}

static void run_all_queued(topology_t *topology)
{
    MT_MPI(MPI_Comm_set_errhandler(topology->comm, MPI_ERRORS_RETURN));
    for (int collective = 0; collective < COLLECTIVES; ++collective) {
        for (int steps = 0; steps < 4; ++steps) {
            run_queued((collective_t)collective, topology, 0 == steps % 2 ? 1 : 3, 0 == steps / 2 ? 1 : 3);
        }
        run_captured((collective_t)collective, topology, 1);
        run_captured((collective_t)collective, topology, 3);
        run_request((collective_t)collective, topology, 1, false);
        run_request((collective_t)collective, topology, 3, false);
    }
    run_request(ALLTOALLW, topology, 1, true);
}

static void run_all(topology_t *topology)
{
    /*
     * What Open MPI's nonblocking and persistent functions do with edges that two ranks share differs between its
     * versions.
     */
    const int variants = host || staged ? 1 : VARIANTS;

    for (int round = 0; round < ROUNDS && !queued; ++round) {
        for (int variant = 0; variant < variants; ++variant) {
            for (int collective = 0; collective < COLLECTIVES; ++collective) {
                for (int steps = 0; steps < 4; ++steps) {
                    /* Each persistent request sets up communication of its own, so few of them have to do. */
                    if (PERSISTENT != variant || (0 == round && collective % 4 == steps)) {
                        run((collective_t)collective, (variant_t)variant, topology, 0 == steps % 2 ? 1 : 3,
                            0 == steps / 2 ? 1 : 3, round);
                    }
                }
            }
        }
    }
    if (queued) {
        run_all_queued(topology);
    }
    MT_MPI(MPI_Comm_free(&topology->comm));
}

/*
 * A grid whose dimensions are `first`, the rest, and 1. `middle`: the second is periodic; `periodic`: the others are.
 * What goes down one way comes from the other way.
 */
static void grid(topology_t *topology, const char *name, int first, int periodic, int middle)
{
    int dims[3] = {first, mt_size / first, 1}, periods[3] = {periodic, middle, periodic};

    topology->name = name;
    MT_MPI(MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &topology->comm));
    topology->outs = topology->ins = 6;
    for (int dim = 0; dim < 3; ++dim) {
        int low, high;

        MT_MPI(MPI_Cart_shift(topology->comm, dim, 1, &low, &high));
        topology->in[2 * dim] = (edge_t){.peer = low, .turn = 2 * dim};
        topology->in[2 * dim + 1] = (edge_t){.peer = high, .turn = 2 * dim + 1};
        topology->out[2 * dim] = (edge_t){.peer = low, .turn = 2 * dim + 1};
        topology->out[2 * dim + 1] = (edge_t){.peer = high, .turn = 2 * dim};
    }
    run_all(topology);
}

/* Edges from `from` to `to` in each round of a distributed graph, in the order of the loops of `dist_graph`. */
static int edges_of(int from, int to, int each)
{
    return from == to ? 1 : (from + 2 * to) % 4 == 3 ? 0 : each;
}

/* Some edges between each two ranks, in turns, so that those of one pair do not follow one another. */
static void dist_graph(topology_t *topology, const char *name, int each)
{
    static int from[EDGES_MAX], to[EDGES_MAX], ones[EDGES_MAX];

    topology->name = name;
    topology->outs = topology->ins = 0;
    for (int turn = 0; turn < each; ++turn) {
        for (int rank = 0; rank < mt_size; ++rank) {
            if (turn < edges_of(mt_rank, rank, each)) {
                topology->out[topology->outs++] = (edge_t){.peer = rank, .turn = turn};
            }
            if (turn < edges_of(mt_size - 1 - rank, mt_rank, each)) {
                topology->in[topology->ins++] = (edge_t){.peer = mt_size - 1 - rank, .turn = turn};
            }
        }
    }
    for (int i = 0; i < EDGES_MAX; ++i) {
        from[i] = topology->in[i].peer;
        to[i] = topology->out[i].peer;
        ones[i] = 1;
    }
    MT_MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, topology->ins, from, ones, topology->outs, to, ones,
                                          MPI_INFO_NULL, 0, &topology->comm));
    run_all(topology);
}

/* A ring in which the first rank alone has two edges to the next one. */
static void uneven_graph(topology_t *topology)
{
    const int next = (mt_rank + 1) % mt_size, previous = (mt_rank + mt_size - 1) % mt_size;
    const int from[2] = {previous, previous}, to[2] = {next, next}, ones[2] = {1, 1};

    topology->name = "a ring with one double edge";
    topology->outs = 0 == mt_rank ? 2 : 1;
    topology->ins = 0 == previous ? 2 : 1;
    for (int i = 0; i < 2; ++i) {
        topology->out[i] = (edge_t){.peer = next, .turn = i};
        topology->in[i] = (edge_t){.peer = previous, .turn = i};
    }
    MT_MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, topology->ins, from, ones, topology->outs, to, ones,
                                          MPI_INFO_NULL, 0, &topology->comm));
    run_all(topology);
}

/* A ring with two edges in each direction. */
static void graph(topology_t *topology)
{
    static int index[EDGES_MAX / 4], edges[EDGES_MAX];
    const int next = (mt_rank + 1) % mt_size, previous = (mt_rank + mt_size - 1) % mt_size;

    topology->name = "a graph";
    for (int rank = 0; rank < mt_size; ++rank) {
        index[rank] = 4 * (rank + 1);
        edges[4 * rank] = edges[4 * rank + 2] = (rank + 1) % mt_size;
        edges[4 * rank + 1] = edges[4 * rank + 3] = (rank + mt_size - 1) % mt_size;
    }
    MT_MPI(MPI_Graph_create(MPI_COMM_WORLD, mt_size, index, edges, 0, &topology->comm));
    topology->outs = topology->ins = 4;
    for (int i = 0; i < 4; ++i) {
        topology->out[i].peer = topology->in[i].peer = 0 == i % 2 ? next : previous;
        topology->out[i].turn = topology->in[i].turn = next == previous ? i : i / 2;
    }
    run_all(topology);
}

/* Arguments that are not allowed. */
static void refuse(void)
{
    const int places[2] = {0, 0};
    MPI_Comm ring;
    int codes[5], class, size = mt_size, periodic = 1, buffer[2] = {0, 0};
    static const int expected[5] = {MPI_ERR_TOPOLOGY, MPI_ERR_ARG, MPI_ERR_ARG, MPI_ERR_TOPOLOGY, MPI_ERR_ARG};
    static const char *const what[5] = {"no topology", "MPI_IN_PLACE", "no counts", "a request without a topology",
                                        "a request without counts"};

    MT_MPI(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring));
    MT_MPI(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    codes[0] = MPIX_Mscclpp_neighbor_allgather_enqueue(buffer, 1, MPI_INT, buffer, 1, MPI_INT, MPI_COMM_WORLD, stream);
    codes[1] = MPIX_Mscclpp_neighbor_alltoall_enqueue(MPI_IN_PLACE, 1, MPI_INT, buffer, 1, MPI_INT, ring, stream);
    codes[2] = MPIX_Mscclpp_neighbor_alltoallv_enqueue(buffer, NULL, places, MPI_INT, buffer, places, places, MPI_INT,
                                                       ring, stream);
    codes[3] = MPIX_Mscclpp_neighbor_allgather_init(buffer, 1, MPI_INT, buffer, 1, MPI_INT, MPI_COMM_WORLD, &made);
    codes[4] = MPIX_Mscclpp_neighbor_alltoallv_init(buffer, NULL, places, MPI_INT, buffer, places, places, MPI_INT,
                                                    ring, &made);
    for (int i = 0; i < 5; ++i) {
        MT_MPI(MPI_Error_class(codes[i], &class));
        MT_CHECK(class == expected[i], "%s: error class %d, not %d", what[i], class, expected[i]);
    }
    MT_MPI(MPI_Comm_free(&ring));
}

int main(int argc, char **argv)
{
    static topology_t topology;
    const size_t room = sizeof(int) * EDGES_MAX * (ELEMENTS_MAX + GAP) * 3;
    MPI_Datatype one;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    host = argc > 1 && 0 == strcmp(argv[1], "host");
    staged = argc > 1 && 0 == strcmp(argv[1], "staged");
    waits = argc > 1 && 0 == strcmp(argv[1], "waits");
    queued = waits || (argc > 1 && 0 == strcmp(argv[1], "queued"));
    if (queued) {
        stream = mq_stream_make();
        refuse();
    }
    if (mt_size > 6) {
        mt_fail(__FILE__, __LINE__, "at most 6 ranks");
        return mt_finish();
    }
    for (int i = 0; i < 2; ++i) {
        sides[i].buffer = mt_buffer_alloc(host ? MT_HOST : MT_DEVICE, room, 0);
        sides[i].image = mt_host_alloc(room);
    }
    MT_MPI(MPI_Type_vector(1, 1, 1, MPI_INT, &one));
    MT_MPI(MPI_Type_create_resized(one, 0, 3 * (MPI_Aint)sizeof(int), &spread));
    MT_MPI(MPI_Type_commit(&spread));
    MT_MPI(MPI_Type_free(&one));

    grid(&topology, "a periodic grid", mt_size % 2 == 0 ? 2 : 1, 1, 1);
    grid(&topology, "a grid that is periodic in one dimension", mt_size, 0, 1);
    grid(&topology, "a line", mt_size, 0, 0);
    graph(&topology);
    uneven_graph(&topology);
    dist_graph(&topology, "a distributed graph of single edges", 1);
    dist_graph(&topology, "a distributed graph", 2);
    dist_graph(&topology, "a distributed graph with many edges", 66);

    MT_MPI(MPI_Type_free(&spread));
    for (int i = 0; i < 2; ++i) {
        mt_buffer_free(&sides[i].buffer, "a buffer");
        free(sides[i].image);
    }
    if (queued) {
        mq_stream_free(stream);
    }
    return mt_finish();
}
