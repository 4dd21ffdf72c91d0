/* Random calls: chosen, made, and compared with what they must give. */
#include "test/mpi/random_call.h"

#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_sums.h"

enum { ROUND = 6 }; /* with so many basics, or a multiple, each type of random_layout.c can have them */

uint64_t random_draw(random_source_t *source)
{
    return mt_mix(source->state++, 0x72616e64, 0);
}

int random_below(random_source_t *source, int limit)
{
    return (int)(random_draw(source) % (uint64_t)limit);
}

bool random_chance(random_source_t *source, int percent)
{
    return random_below(source, 100) < percent;
}

void random_order(random_source_t *source, int *order, int count)
{
    for (int i = 0; i < count; ++i) {
        const int other = random_below(source, i + 1);

        order[i] = order[other];
        order[other] = i;
    }
}

/* Most calls are small, few are large, and some are empty. */
static int choose_count(random_source_t *source)
{
    static const struct {
        int percent, most;
    } kinds[] = {{8, 1}, {20, 2}, {50, 40}, {80, 1500}, {96, 9000}, {100, 60000}};
    const int kind = random_below(source, 100);
    size_t i = 0;

    while (kind >= kinds[i].percent) {
        ++i;
    }
    return random_below(source, kinds[i].most);
}

void random_choose(random_call_t *call, random_source_t *shared, random_how_t how)
{
    static const int basics[] = {1, 4, 8};

    memset(call, 0, sizeof(*call));
    call->request = MPI_REQUEST_NULL;
    call->how = how;
    call->seed = random_draw(shared);
    call->coll = (random_coll_t)random_below(shared, RANDOM_COLLS);
    call->count = choose_count(shared);
    call->basic = basics[random_below(shared, 3)];
    call->type = random_below(shared, 1000);
    call->op = random_below(shared, 1000);
    call->root = random_below(shared, 1000);
    call->in_place = random_chance(shared, 40) && RANDOM_BCAST != call->coll;
    call->dense = random_chance(shared, 40);
    if (!random_reduces(call) && !(call->dense && call->coll < RANDOM_ALLGATHERV)) {
        call->count = (call->count + ROUND - 1) / ROUND * ROUND;
    }
}

/* Bytes of a buffer that the result, or the operand of a reduction, takes. */
static size_t bytes_of(const random_call_t *call, const random_side_t *side)
{
    return random_reduces(call) ? (size_t)random_sum_total(call) * (size_t)random_sum_size(call)
                                : (size_t)side->length * (size_t)call->basic;
}

static bool has_output(const random_call_t *call)
{
    return random_reduces(call) ? RANDOM_REDUCE != call->coll || call->ranks.rank == call->root
                                : call->recv.count > 0 || random_input_in_output(call);
}

static bool has_input(const random_call_t *call)
{
    return !random_input_in_output(call) && (random_reduces(call) || call->send.count > 0);
}

void random_make(random_call_t *call, const random_ranks_t *ranks)
{
    call->ranks = *ranks;
    call->root %= ranks->size;
    if (random_reduces(call)) {
        const int misalign = (int)(mt_mix(call->seed, 4, (uint64_t)ranks->rank) % 32);

        call->send.misalign = call->recv.misalign =
            misalign < 16 ? misalign / random_sum_size(call) * random_sum_size(call) : 0;
    } else {
        random_lay_out(call);
    }
    if (has_input(call)) {
        call->send_buffer = mt_buffer_alloc(MT_DEVICE, bytes_of(call, &call->send) + 1, (size_t)call->send.misalign);
    }
    if (has_output(call)) {
        call->recv_buffer = mt_buffer_alloc(MT_DEVICE, bytes_of(call, &call->recv) + 1, (size_t)call->recv.misalign);
        call->wanted = random_reduces(call) ? NULL : mt_host_alloc(bytes_of(call, &call->recv));
    }
}

void random_free(random_call_t *call)
{
    if (RANDOM_PERSISTENT == call->how) {
        MT_MPI(MPI_Request_free(&call->request));
    }
    if (has_input(call)) {
        mt_buffer_free(&call->send_buffer, "the send buffer of a random call");
    }
    if (has_output(call)) {
        mt_buffer_free(&call->recv_buffer, "the receive buffer of a random call");
    }
    free(call->wanted);
    call->wanted = NULL;
}

/* What is in a buffer of blocks before the call. */
static void set_bytes(const random_call_t *call, const random_side_t *side, char *bytes)
{
    for (long i = 0; i < side->length * call->basic; ++i) {
        bytes[i] = (char)random_byte(side->seed, call->ranks.rank, i);
    }
}

static void put(mt_buffer_t *buffer, const char *bytes, size_t size)
{
    if (size > 0) {
        mt_buffer_put(buffer, bytes, size);
    }
}

static void fill_sum(random_call_t *call)
{
    const size_t size = bytes_of(call, &call->send);
    char *operand = mt_host_alloc(size);

    random_sum_fill(call, operand);
    put(random_input_in_output(call) ? &call->recv_buffer : &call->send_buffer, operand, size);
    free(operand);
}

void random_fill(random_call_t *call)
{
    char *input;

    if (random_reduces(call)) {
        fill_sum(call);
        return;
    }
    random_lay_out(call); /* with this turn's contents */
    if (has_input(call)) {
        input = mt_host_alloc(bytes_of(call, &call->send));
        set_bytes(call, &call->send, input);
        put(&call->send_buffer, input, bytes_of(call, &call->send));
        free(input);
    }
    if (has_output(call)) {
        set_bytes(call, &call->recv, call->wanted);
        put(&call->recv_buffer, call->wanted, bytes_of(call, &call->recv));
        random_expect_blocks(call, call->wanted);
    }
}

static const char *name_of(const random_call_t *call)
{
    static const char *const names[RANDOM_COLLS] = {
        "bcast",         "allgather", "gather",   "scatter",   "alltoall",
        "allgatherv",    "gatherv",   "scatterv", "alltoallv", "alltoallw",
        "allreduce",     "reduce",    "scan",     "exscan",    "reduce_scatter_block",
        "reduce_scatter"};

    return names[call->coll];
}

/* Reports that a part of a buffer is wrong. */
static void report(const random_call_t *call, const char *what, size_t wrong, size_t all)
{
    static const char *const hows[] = {"blocking", "nonblocking", "persistent"};

    MT_CHECK(
        false,
        "%s %s of %d ranks, count %d, basics of %d bytes, type %d, op %d, root %d, in place %d, turn %d: %s %zu of "
        "%zu is wrong",
        hows[call->how], name_of(call), call->ranks.size, call->count, call->basic, call->type, call->op, call->root,
        call->in_place, call->turn, what, wrong, all);
}

static void check_sum(const random_call_t *call)
{
    const size_t size = bytes_of(call, &call->recv);
    char *got = mt_host_alloc(size), *wanted = mt_host_alloc(size);
    const int count = random_sum_expect(call, wanted);
    int i = 0;

    if (count > 0) {
        mt_buffer_get(&call->recv_buffer, got, size);
    }
    while (i < count && random_sum_equal(call, got, wanted, i)) {
        ++i;
    }
    if (i < count) {
        report(call, "element", (size_t)i, (size_t)count);
    }
    free(got);
    free(wanted);
}

static void check_bytes(const random_call_t *call, const mt_buffer_t *buffer, const char *wanted, size_t size,
                        const char *what)
{
    char *got = mt_host_alloc(size);
    size_t i = 0;

    if (size > 0) {
        mt_buffer_get(buffer, got, size);
    }
    while (i < size && got[i] == wanted[i]) {
        ++i;
    }
    if (i < size) {
        report(call, what, i, size);
    }
    free(got);
}

void random_check(const random_call_t *call)
{
    char *input;

    if (random_reduces(call)) {
        check_sum(call);
        return;
    }
    if (has_output(call)) {
        check_bytes(call, &call->recv_buffer, call->wanted, bytes_of(call, &call->recv), "byte");
    }
    if (has_input(call)) {
        input = mt_host_alloc(bytes_of(call, &call->send));
        set_bytes(call, &call->send, input);
        check_bytes(call, &call->send_buffer, input, bytes_of(call, &call->send), "byte of the input");
        free(input);
    }
}

void random_issue(random_call_t *call, MPI_Comm comm)
{
    const MPI_Datatype type = random_sum_type(call), send_type = call->send_types[0], recv_type = call->recv_types[0];
    const MPI_Op op = random_sum_op(call);
    const int root = call->root, send_count = call->send_counts[0], recv_count = call->recv_counts[0];
    const bool is_root = call->ranks.rank == root;
    const void *in = random_input_in_output(call) ? MPI_IN_PLACE : call->send_buffer.data;
    void *out = call->in_place && is_root && (RANDOM_SCATTER == call->coll || RANDOM_SCATTERV == call->coll)
                    ? MPI_IN_PLACE
                    : call->recv_buffer.data;

#define ISSUE(Name_, Nonblocking_, ...)                                                                                \
    MT_MPI(RANDOM_BLOCKING == call->how ? MPI_##Name_(__VA_ARGS__, comm)                                               \
           : RANDOM_NONBLOCKING == call->how                                                                           \
               ? MPI_##Nonblocking_(__VA_ARGS__, comm, &call->request)                                                 \
               : PERSISTENT_INIT(Name_)(__VA_ARGS__, comm, MPI_INFO_NULL, &call->request))
    switch (call->coll) {
    case RANDOM_BCAST:
        ISSUE(Bcast, Ibcast, is_root ? call->send_buffer.data : call->recv_buffer.data,
              is_root ? send_count : recv_count, is_root ? send_type : recv_type, root);
        break;
    case RANDOM_ALLGATHER:
        ISSUE(Allgather, Iallgather, in, send_count, send_type, out, recv_count, recv_type);
        break;
    case RANDOM_GATHER:
        ISSUE(Gather, Igather, in, send_count, send_type, out, recv_count, recv_type, root);
        break;
    case RANDOM_SCATTER:
        ISSUE(Scatter, Iscatter, in, send_count, send_type, out, recv_count, recv_type, root);
        break;
    case RANDOM_ALLTOALL:
        ISSUE(Alltoall, Ialltoall, in, send_count, send_type, out, recv_count, recv_type);
        break;
    case RANDOM_ALLGATHERV:
        ISSUE(Allgatherv, Iallgatherv, in, send_count, send_type, out, call->recv_counts, call->recv_displs, recv_type);
        break;
    case RANDOM_GATHERV:
        ISSUE(Gatherv, Igatherv, in, send_count, send_type, out, call->recv_counts, call->recv_displs, recv_type, root);
        break;
    case RANDOM_SCATTERV:
        ISSUE(Scatterv, Iscatterv, in, call->send_counts, call->send_displs, send_type, out, recv_count, recv_type,
              root);
        break;
    case RANDOM_ALLTOALLV:
        ISSUE(Alltoallv, Ialltoallv, in, call->send_counts, call->send_displs, send_type, out, call->recv_counts,
              call->recv_displs, recv_type);
        break;
    case RANDOM_ALLTOALLW:
        ISSUE(Alltoallw, Ialltoallw, in, call->send_counts, call->send_displs, call->send_types, out, call->recv_counts,
              call->recv_displs, call->recv_types);
        break;
    case RANDOM_ALLREDUCE:
        ISSUE(Allreduce, Iallreduce, in, out, call->count, type, op);
        break;
    case RANDOM_REDUCE:
        ISSUE(Reduce, Ireduce, in, out, call->count, type, op, root);
        break;
    case RANDOM_SCAN:
        ISSUE(Scan, Iscan, in, out, call->count, type, op);
        break;
    case RANDOM_EXSCAN:
        ISSUE(Exscan, Iexscan, in, out, call->count, type, op);
        break;
    case RANDOM_REDUCE_SCATTER_BLOCK:
        ISSUE(Reduce_scatter_block, Ireduce_scatter_block, in, out, call->count, type, op);
        break;
    default:
        for (int rank = 0; rank < call->ranks.size; ++rank) {
            call->recv_counts[rank] = random_sum_count(call, rank);
        }
        ISSUE(Reduce_scatter, Ireduce_scatter, in, out, call->recv_counts, type, op);
    }
#undef ISSUE
}
