/*
 * Calls of one collective that execution plans are to serve, or not. Usage:
 *
 *     test_plans allreduce|allgather|reducescatter|alltoall planned|unplanned|in-place [OPERATION [MOST [WAY [PLAN]]]]
 *
 * Of many sizes, up to MOST elements (default: 600000; "=N": N elements alone) of several types, aligned and not, in
 * place and out of place; three calls follow one another without a barrier, with other operands. OPERATION: one of
 * MPI's; "any" (default), for each type its own; or "each", all types with all operations, of which plans must serve
 * even those with padding. `planned`: plans must serve every call, but those of types with padding; `unplanned`: none;
 * `in-place`: every call in place, and no other. WAY: blocking (default),
 * nonblocking or persistent calls, "queued", one call in a stream and then a graph of it, "after", nonblocking ones
 * after a blocking one, "lingering", blocking ones of which some have to be served by a kernel that stayed, "recycled",
 * blocking ones after buffers which peers had mapped were freed, or "flags" or "flags-queued", all-gathers of what
 * packets of later calls have as flags, with sizes that alternate. PLAN: the name that MPI's tool interface has to give
 * for the plan that served a call.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_queued.h"
#include "test/mpi/mpi_sums.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

enum { CALLS = 3 };

typedef enum { ALLREDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL, KINDS } kind_t;

static const char *const names[KINDS] = {"allreduce", "allgather", "reducescatter", "alltoall"};

typedef enum { BLOCKING, NONBLOCKING, AFTER, PERSISTENT, QUEUED, LINGERING, RECYCLED, FLAGS, FLAGS_QUEUED, WAYS } way_t;

static const char *const way_names[WAYS] = {"blocking",  "nonblocking", "after", "persistent",  "queued",
                                            "lingering", "recycled",    "flags", "flags-queued"};

static struct {
    kind_t kind;
    way_t way;
    const char *plan;     /* NULL: any */
    MPI_Request request;  /* of a persistent call */
    void *stream, *graph; /* of queued calls */
    const mt_type_t *type;
    mt_op_t op;
    int count; /* elements of a block */
    bool in_place;
    size_t extent;
    int in_blocks, out_blocks;
} test;

/* What a rank has for a call. */
static void fill(int rank, int seed, char *to)
{
    mt_fill(test.type, test.op, test.in_blocks * test.count, rank, seed, to);
}

static void expect(int seed, char *expected)
{
    const size_t block = (size_t)test.count * test.extent;
    char *all = mt_host_alloc((size_t)mt_size * block);

    for (int r = 0; r < mt_size && (ALLGATHER == test.kind || ALLTOALL == test.kind); ++r) {
        fill(r, seed, all);
        memcpy(expected + (size_t)r * block, ALLTOALL == test.kind ? all + (size_t)mt_rank * block : all, block);
    }
    if (ALLREDUCE == test.kind) {
        mt_compute(test.type, test.op, test.count, mt_size, seed, expected);
    } else if (REDUCESCATTER == test.kind) {
        mt_compute(test.type, test.op, mt_size * test.count, mt_size, seed, all);
        memcpy(expected, all + (size_t)mt_rank * block, block);
    }
    free(all);
}

static void start(const void *from, char *recv)
{
    MPI_Datatype type = test.type->type;
    MPI_Request *request = &test.request;

    switch (test.kind) {
    case ALLREDUCE:
        MT_MPI(MPI_Iallreduce(from, recv, test.count, type, mt_op_mpi(test.op), MPI_COMM_WORLD, request));
        break;
    case ALLGATHER:
        MT_MPI(MPI_Iallgather(from, test.count, type, recv, test.count, type, MPI_COMM_WORLD, request));
        break;
    case REDUCESCATTER:
        MT_MPI(MPI_Ireduce_scatter_block(from, recv, test.count, type, mt_op_mpi(test.op), MPI_COMM_WORLD, request));
        break;
    default:
        MT_MPI(MPI_Ialltoall(from, test.count, type, recv, test.count, type, MPI_COMM_WORLD, request));
        break;
    }
}

static void make(const void *from, char *recv)
{
    MPI_Datatype type = test.type->type;
    MPI_Request *request = &test.request;

    switch (test.kind) {
    case ALLREDUCE:
        MT_MPI(PERSISTENT_INIT(Allreduce)(from, recv, test.count, type, mt_op_mpi(test.op), MPI_COMM_WORLD,
                                          MPI_INFO_NULL, request));
        break;
    case ALLGATHER:
        MT_MPI(PERSISTENT_INIT(Allgather)(from, test.count, type, recv, test.count, type, MPI_COMM_WORLD, MPI_INFO_NULL,
                                          request));
        break;
    case REDUCESCATTER:
        MT_MPI(PERSISTENT_INIT(Reduce_scatter_block)(from, recv, test.count, type, mt_op_mpi(test.op), MPI_COMM_WORLD,
                                                     MPI_INFO_NULL, request));
        break;
    default:
        MT_MPI(PERSISTENT_INIT(Alltoall)(from, test.count, type, recv, test.count, type, MPI_COMM_WORLD, MPI_INFO_NULL,
                                         request));
        break;
    }
}

static void queue(const void *from, char *recv)
{
    MPI_Datatype type = test.type->type;
    void *stream = test.stream;

    switch (test.kind) {
    case ALLREDUCE:
        MT_MPI(
            MPIX_Mscclpp_allreduce_enqueue(from, recv, test.count, type, mt_op_mpi(test.op), MPI_COMM_WORLD, stream));
        break;
    case ALLGATHER:
        MT_MPI(MPIX_Mscclpp_allgather_enqueue(from, test.count, type, recv, test.count, type, MPI_COMM_WORLD, stream));
        break;
    case REDUCESCATTER:
        MT_MPI(MPIX_Mscclpp_reduce_scatter_block_enqueue(from, recv, test.count, type, mt_op_mpi(test.op),
                                                         MPI_COMM_WORLD, stream));
        break;
    default:
        MT_MPI(MPIX_Mscclpp_alltoall_enqueue(from, test.count, type, recv, test.count, type, MPI_COMM_WORLD, stream));
        break;
    }
}

/* The first call is queued; the second one is recorded in a graph, which repeats it from then on. */
static void call_queued(int seed, const void *from, char *recv)
{
    if (0 == seed) {
        queue(from, recv);
    } else {
        if (test.graph == NULL) {
            mq_capture_begin(test.stream);
            queue(from, recv);
            test.graph = mq_capture_end(test.stream);
        }
        mq_graph_launch(test.graph, test.stream);
    }
    mq_stream_wait(test.stream);
}

static void call(const void *from, char *recv)
{
    MPI_Datatype type = test.type->type;

    if (NONBLOCKING == test.way || AFTER == test.way || PERSISTENT == test.way) {
        if (PERSISTENT == test.way) {
            MT_MPI(MPI_Start(&test.request));
        } else {
            start(from, recv);
        }
        MT_MPI(MPI_Wait(&test.request, MPI_STATUS_IGNORE));
        return;
    }
    switch (test.kind) {
    case ALLREDUCE:
        MT_MPI(MPI_Allreduce(from, recv, test.count, type, mt_op_mpi(test.op), MPI_COMM_WORLD));
        break;
    case ALLGATHER:
        MT_MPI(MPI_Allgather(from, test.count, type, recv, test.count, type, MPI_COMM_WORLD));
        break;
    case REDUCESCATTER:
        MT_MPI(MPI_Reduce_scatter_block(from, recv, test.count, type, mt_op_mpi(test.op), MPI_COMM_WORLD));
        break;
    default:
        MT_MPI(MPI_Alltoall(from, test.count, type, recv, test.count, type, MPI_COMM_WORLD));
        break;
    }
}

/*
 * A call of another collective on buffers that are freed then. Peers keep mappings of them, and memory that is
 * allocated later comes to lie where they were.
 */
static void leave_freed(void)
{
    enum { PAIRS = 16 };
    const int block = (1 << 20) / mt_size; /* bytes */
    const size_t whole = (size_t)mt_size * (size_t)block;
    mt_buffer_t send[PAIRS], recv[PAIRS];

    for (int i = 0; i < PAIRS; ++i) {
        send[i] = mt_buffer_alloc(MT_DEVICE, whole, 0);
        recv[i] = mt_buffer_alloc(MT_DEVICE, whole, 0);
        if (ALLTOALL == test.kind) {
            MT_MPI(MPI_Allgather(send[i].data, block, MPI_BYTE, recv[i].data, block, MPI_BYTE, MPI_COMM_WORLD));
        } else {
            MT_MPI(MPI_Alltoall(send[i].data, block, MPI_BYTE, recv[i].data, block, MPI_BYTE, MPI_COMM_WORLD));
        }
    }
    for (int i = 0; i < PAIRS; ++i) {
        mt_buffer_free(&send[i], "send buffer");
        mt_buffer_free(&recv[i], "receive buffer");
    }
}

/* Three calls on the same buffers, and nothing but these calls between the ranks. */
static void run(size_t misalign)
{
    const size_t block = (size_t)test.count * test.extent;
    const size_t in = (size_t)test.in_blocks * block, out = (size_t)test.out_blocks * block;
    const size_t span = test.in_place && in > out ? in : out;
    /* In place an all-gather has its operand at its place in the result. */
    const size_t own = test.in_place && ALLGATHER == test.kind ? (size_t)mt_rank * block : 0;
    char *operand = mt_host_alloc(in), *expected = mt_host_alloc(out), *result = mt_host_alloc(span);
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, in, misalign), recv = mt_buffer_alloc(MT_DEVICE, span, misalign);
    const void *from = test.in_place ? MPI_IN_PLACE : (const void *)send.data;
    int wrong;

    if (RECYCLED == test.way && MPI_INT == test.type->type) {
        leave_freed();
    }

    if (PERSISTENT == test.way) {
        make(from, recv.data);
    } else if (AFTER == test.way) {
        fill(mt_rank, 0, operand);
        mt_buffer_put(&send, operand, in);
        test.way = BLOCKING;
        call(from, recv.data);
        test.way = AFTER;
    }
    for (int seed = 0; seed < CALLS; ++seed) {
        fill(mt_rank, seed, operand);
        memset(result, 0x5b, span);
        if (test.in_place) {
            memcpy(result + own, operand, in);
        }
        mt_buffer_put(&recv, result, span);
        mt_buffer_put(&send, operand, in);
        if (QUEUED == test.way) {
            call_queued(seed, from, recv.data);
        } else {
            call(from, recv.data);
        }
        mt_buffer_get(&recv, result, span);
        expect(seed, expected);
        wrong = mt_difference(test.type, test.out_blocks * test.count, result, expected);
        MT_CHECK(wrong < 0, "%s of %s, %s, count %d at +%zu%s, call %d: element %d is wrong", names[test.kind],
                 test.type->name, mt_op_name(test.op), test.count, misalign, test.in_place ? " in place" : "", seed,
                 wrong);
        mt_buffer_get(&send, result, in < span ? in : span);
        MT_CHECK(0 == memcmp(result, operand, in < span ? in : span), "%s of %s, count %d: the send buffer was changed",
                 names[test.kind], test.type->name, test.count);
    }
    if (PERSISTENT == test.way) {
        MT_MPI(MPI_Request_free(&test.request));
    }
    if (test.graph != NULL) {
        if (mt_twin) {
            MT_MPI(MPIX_Mscclpp_host_graph_destroy(test.graph));
        }
        test.graph = NULL;
    }
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    free(operand);
    free(expected);
    free(result);
}

/* What the tool interface calls the plan of the last call. */
static void check_plan(bool planned)
{
    const char *wanted = planned ? test.plan : "";
    char name[256];

    mt_plan(name, sizeof(name));
    MT_CHECK(0 == strcmp(name, wanted), "coll_mscclpp_plan is \"%s\" instead of \"%s\"", name, wanted);
}

/* Pairs are taken as types with padding between their parts, whether they have any or not. */
static bool has_padding(const mt_type_t *type)
{
    return (type->ops >> MT_OP_MAXLOC & 1) != 0 && (type->ops >> MT_OP_MAX & 1) == 0;
}

/* Whether kernels combine the type, or move it, on this device. */
static bool is_served(const mt_type_t *type, mt_op_t op)
{
    const bool combines = ALLREDUCE == test.kind || REDUCESCATTER == test.kind;

    return !combines || ((type->ops >> op & 1) != 0 && (mt_twin ? type->layout->on_twin : type->layout->on_gpu));
}

/*
 * One size of test.type, out of place and, with `ways` 2, in place. `strict`: out of place, plans serve types with
 * padding, too.
 */
static void run_size(const char *which, int count, size_t misalign, bool strict, int ways)
{
    const uint64_t counted = QUEUED == test.way  ? 2
                             : AFTER == test.way ? CALLS + 1
                                                 : CALLS; /* no repetitions by graphs */
    uint64_t before, after;
    bool planned, padded;

    test.count = count;
    for (int way = 0; way < ways; ++way) {
        test.in_place = way != 0;
        padded = (!strict || test.in_place) && has_padding(test.type);
        if (QUEUED == test.way && REDUCESCATTER == test.kind && test.in_place && padded) {
            continue; /* no plan serves it, and what else does could not be captured */
        }
        planned = 0 == strcmp(which, "planned") || (test.in_place && 0 == strcmp(which, "in-place"));
        before = mt_planned(MPI_COMM_WORLD);
        run(misalign);
        after = mt_planned(MPI_COMM_WORLD);
        MT_CHECK((padded && planned) || after - before == (planned ? counted : 0),
                 "%s of %s, %s, count %d%s: plans served %llu of %llu calls", names[test.kind], test.type->name,
                 mt_op_name(test.op), test.count, test.in_place ? " in place" : "",
                 (unsigned long long)(after - before), (unsigned long long)counted);
        if (test.plan != NULL && !padded) {
            check_plan(planned);
        }
    }
}

/* Whether this Open MPI reduces the type with the operation. */
static bool is_allowed(const mt_type_t *type, mt_op_t op)
{
    long double a[2] = {0, 0}, b[2] = {0, 0};
    bool allowed;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    allowed = MPI_SUCCESS == MPI_Reduce_local(a, b, 1, type->type, mt_op_mpi(op));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    return allowed;
}

/* Every type with every operation that MPI allows for it. */
static void run_each(const char *which)
{
    const bool combines = ALLREDUCE == test.kind || REDUCESCATTER == test.kind;
    static const int sizes[] = {1021, 37, 1};
    const mt_type_t *types;
    const int count = mt_types(&types);
    int runs = 0;

    for (int t = 0; t < count; ++t) {
        test.type = &types[t];
        test.extent = test.type->layout->extent;
        for (mt_op_t op = 0; op < (combines ? MT_OP_COUNT : 1); ++op) {
            test.op = op;
            if (!combines) {
                while ((test.type->ops >> test.op & 1) == 0) {
                    ++test.op; /* operands are made for an operation */
                }
            } else if (!is_served(test.type, op) || !is_allowed(test.type, op)) {
                continue;
            }
            run_size(which, sizes[runs % 3], runs % 2 != 0 ? test.extent : 0, true, runs % 5 == 0 ? 2 : 1);
            ++runs;
        }
    }
    if (0 == mt_rank) {
        printf("%d pairs of a type and an operation\n", runs);
    }
    MT_CHECK(runs >= (combines ? 150 : 30), "only %d pairs of a type and an operation", runs);
}

/* `only`: MT_OP_COUNT for each type's own. `size`: this number of elements alone; 0: up to `most`. */
static void run_all(const char *which, mt_op_t only, int most, int size)
{
    static const int counts[] = {1, 3, 17, 96, 1000, 4099, 70001, 600000};
    const struct {
        MPI_Datatype type;
        mt_op_t op;
        int most; /* elements */
    } types[] = {
        {MPI_INT, MT_OP_SUM, INT_MAX},    {MPI_DOUBLE, MT_OP_MAX, 4099},        {MPI_SIGNED_CHAR, MT_OP_BXOR, 70001},
        {MPI_SHORT, MT_OP_MIN, 4099},     {MPI_FLOAT, MT_OP_SUM, 4099},         {MPI_LONG, MT_OP_PROD, 1000},
        {MPI_UNSIGNED, MT_OP_LAND, 1000}, {MPI_DOUBLE_INT, MT_OP_MAXLOC, 1000}, {MPI_2INT, MT_OP_MINLOC, 1000}};
    const bool combines = ALLREDUCE == test.kind || REDUCESCATTER == test.kind;

    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); ++t) {
        test.type = mt_type(types[t].type);
        test.op = only < MT_OP_COUNT ? only : types[t].op;
        if (!is_served(test.type, test.op) || (!combines && t >= 3)) {
            continue;
        }
        test.op = combines ? test.op : MT_OP_MAX;
        test.extent = test.type->layout->extent;
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]) && 0 == size; ++c) {
            if (counts[c] <= types[t].most && counts[c] <= most) {
                run_size(which, counts[c], c % 2 != 0 ? test.extent : 0, false, 2);
            }
        }
        if (size > 0 && size <= types[t].most) {
            run_size(which, size, 0, false, 2);
        }
    }
}

/*
 * All elements of call t are t + 2, the flag of call t + 2, whose packets take the same half of the scratch. Calls of
 * two sizes alternate, two by two, so that the data of one lie where the other awaits packets. Data that were taken for
 * packets would be wrong by 2.
 */
static void run_flags(void)
{
    enum { SMALL = 128, LARGE = 1024, ROUNDS = 40 };
    const size_t most = (size_t)mt_size * LARGE * sizeof(int);
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, LARGE * sizeof(int), 0), recv = mt_buffer_alloc(MT_DEVICE, most, 0);
    int *values = mt_host_alloc(most), wrong = 0;
    uint64_t before = mt_planned(MPI_COMM_WORLD);

    for (int t = 1; t <= 4 * ROUNDS; ++t) {
        const int count = (t - 1) / 2 % 2 == 0 ? SMALL : LARGE;

        for (int i = 0; i < count; ++i) {
            values[i] = t + 2;
        }
        mt_buffer_put(&send, values, (size_t)count * sizeof(int));
        if (FLAGS_QUEUED == test.way) {
            MT_MPI(MPIX_Mscclpp_allgather_enqueue(send.data, count, MPI_INT, recv.data, count, MPI_INT, MPI_COMM_WORLD,
                                                  test.stream));
            mq_stream_wait(test.stream);
        } else {
            MT_MPI(MPI_Allgather(send.data, count, MPI_INT, recv.data, count, MPI_INT, MPI_COMM_WORLD));
        }
        mt_buffer_get(&recv, values, (size_t)mt_size * (size_t)count * sizeof(int));
        for (int i = 0; i < mt_size * count; ++i) {
            wrong += values[i] != t + 2;
        }
    }
    MT_CHECK(0 == wrong, "%d elements of %d all-gathers are wrong", wrong, 4 * ROUNDS);
    before = mt_planned(MPI_COMM_WORLD) - before;
    MT_CHECK(4 * ROUNDS == before, "plans served %llu of %d calls", (unsigned long long)before, 4 * ROUNDS);
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    free(values);
}

int main(int argc, char **argv)
{
    mt_op_t only = 0;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    while (test.kind < KINDS && (argc < 2 || 0 != strcmp(argv[1], names[test.kind]))) {
        ++test.kind;
    }
    if (argc < 3 || KINDS == test.kind) {
        mt_fail(__FILE__, __LINE__,
                "usage: test_plans allreduce|allgather|reducescatter|alltoall planned|unplanned|in-place");
        return mt_finish();
    }
    test.in_blocks = REDUCESCATTER == test.kind || ALLTOALL == test.kind ? mt_size : 1;
    test.out_blocks = ALLGATHER == test.kind || ALLTOALL == test.kind ? mt_size : 1;
    while (only < MT_OP_COUNT && (argc < 4 || 0 != strcmp(argv[3], mt_op_name(only)))) {
        ++only;
    }
    while (argc > 5 && test.way < WAYS && 0 != strcmp(argv[5], way_names[test.way])) {
        ++test.way;
    }
    if (WAYS == test.way) {
        mt_fail(__FILE__, __LINE__,
                "test_plans: the way '%s' is not blocking, nonblocking, after, persistent, queued, lingering, "
                "recycled, flags or flags-queued",
                argv[5]);
        return mt_finish();
    }
    if (QUEUED == test.way || FLAGS_QUEUED == test.way) {
        test.stream = mq_stream_make();
    }
    test.plan = argc > 6 ? argv[6] : NULL;
    if (FLAGS == test.way || FLAGS_QUEUED == test.way) {
        run_flags();
    } else if (argc > 3 && 0 == strcmp(argv[3], "each")) {
        run_each(argv[2]);
    } else {
        run_all(argv[2], only, argc > 4 && '=' != argv[4][0] ? atoi(argv[4]) : 600000,
                argc > 4 && '=' == argv[4][0] ? atoi(argv[4] + 1) : 0);
    }
    if (QUEUED == test.way || FLAGS_QUEUED == test.way) {
        mq_stream_free(test.stream);
    }
    /* On a busy machine some calls come too late for the kernel that stays. */
    MT_CHECK(LINGERING != test.way || mt_rung(MPI_COMM_WORLD) >= 10, "%llu calls were rung for",
             (unsigned long long)mt_rung(MPI_COMM_WORLD));
    return mt_finish();
}
