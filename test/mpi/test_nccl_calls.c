/*
 * Which calls of NCCL mscclpp_bench makes for a collective: an NCCL of the test's own, for a few ranks in one process,
 * notes what each rank asks for and does it as NCCL's manual says. Then every rank's buffers must hold what MPI's
 * function would have left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_nccl.h"

#define MAX_RANKS 5
#define MAX_CALLS 64
#define ROOM 4096 /* elements of a buffer */
#define UNTOUCHED (-77)

const char bench_program[] = "test_nccl_calls";

typedef enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, SEND, RECV } kind_t;

typedef struct {
    kind_t kind;
    const int *from;
    int *to;
    size_t count;
    int peer; /* or root */
} noted_t;

static struct {
    noted_t calls[MAX_RANKS][MAX_CALLS];
    int count[MAX_RANKS];
    int rank; /* whose calls come in */
    int in_group;
} asked;

static int buffers[MAX_RANKS][2][ROOM], before[MAX_RANKS][2][ROOM];
static int failures;

static int note(kind_t kind, const void *from, void *to, size_t count, int peer)
{
    int *at = &asked.count[asked.rank];

    if (*at == MAX_CALLS || count == 0 || (!asked.in_group && (kind == SEND || kind == RECV))) {
        return 1;
    }
    asked.calls[asked.rank][(*at)++] =
        (noted_t){.kind = kind, .from = (const int *)from, .to = (int *)to, .count = count, .peer = peer};
    return 0;
}

static int all_reduce(const void *from, void *to, size_t count, int type, int op, nccl_comm_t comm, void *stream)
{
    (void)comm, (void)stream;
    return type != 2 || op != 0 ? 1 : note(ALL_REDUCE, from, to, count, 0);
}

static int all_gather(const void *from, void *to, size_t count, int type, nccl_comm_t comm, void *stream)
{
    (void)comm, (void)stream;
    return type != 2 ? 1 : note(ALL_GATHER, from, to, count, 0);
}

static int reduce_scatter(const void *from, void *to, size_t count, int type, int op, nccl_comm_t comm, void *stream)
{
    (void)comm, (void)stream;
    return type != 2 || op != 0 ? 1 : note(REDUCE_SCATTER, from, to, count, 0);
}

static int broadcast(const void *from, void *to, size_t count, int type, int root, nccl_comm_t comm, void *stream)
{
    (void)comm, (void)stream;
    return type != 2 ? 1 : note(BROADCAST, from, to, count, root);
}

static int reduce(const void *from, void *to, size_t count, int type, int op, int root, nccl_comm_t comm, void *stream)
{
    (void)comm, (void)stream;
    return type != 2 || op != 0 ? 1 : note(REDUCE, from, to, count, root);
}

static int send(const void *from, size_t count, int type, int peer, nccl_comm_t comm, void *stream)
{
    (void)comm, (void)stream;
    return type != 2 ? 1 : note(SEND, from, NULL, count, peer);
}

static int receive(void *to, size_t count, int type, int peer, nccl_comm_t comm, void *stream)
{
    (void)comm, (void)stream;
    return type != 2 ? 1 : note(RECV, NULL, to, count, peer);
}

static int group_start(void)
{
    return asked.in_group++;
}

static int group_end(void)
{
    return --asked.in_group;
}

static const nccl_functions_t functions = {.all_reduce = all_reduce,
                                           .all_gather = all_gather,
                                           .reduce_scatter = reduce_scatter,
                                           .broadcast = broadcast,
                                           .reduce = reduce,
                                           .send = send,
                                           .recv = receive,
                                           .group_start = group_start,
                                           .group_end = group_end};

/* What an address held before the call. */
static const int *as_before(const int *address)
{
    return &before[0][0][0] + (address - &buffers[0][0][0]);
}

/* Only the rank itself may read and write its buffers. */
static int is_own(int rank, const int *address, size_t count)
{
    return address >= &buffers[rank][0][0] && address + count <= &buffers[rank][0][0] + 2 * (size_t)ROOM;
}

static void add_up(int size, int index, size_t skip, size_t count, int *to)
{
    for (size_t i = 0; i < count; ++i) {
        to[i] = 0;
        for (int rank = 0; rank < size; ++rank) {
            to[i] += as_before(asked.calls[rank][index].from)[skip + i];
        }
    }
}

/* A receive gets what the sender's next send to this rank has; the sends of a pair are in order. */
static bool receive_from(int rank, int index)
{
    const noted_t *call = &asked.calls[rank][index];
    int nth = 0;

    for (int i = 0; i < index; ++i) {
        nth += asked.calls[rank][i].kind == RECV && asked.calls[rank][i].peer == call->peer;
    }
    for (int i = 0; i < asked.count[call->peer]; ++i) {
        const noted_t *sent = &asked.calls[call->peer][i];
        if (sent->kind == SEND && sent->peer == rank && nth-- == 0) {
            memcpy(call->to, as_before(sent->from), sizeof(int) * call->count);
            return sent->count == call->count && is_own(call->peer, sent->from, sent->count);
        }
    }
    return false;
}

static int count_of(int rank, kind_t kind, int peer)
{
    int count = 0;

    for (int i = 0; i < asked.count[rank]; ++i) {
        count += asked.calls[rank][i].kind == kind && asked.calls[rank][i].peer == peer;
    }
    return count;
}

/* One call of one rank. False if NCCL would hang or go astray. */
static bool carry_out(int size, int rank, int index)
{
    const noted_t *call = &asked.calls[rank][index];

    if (call->kind == SEND) {
        return count_of(rank, SEND, call->peer) == count_of(call->peer, RECV, rank);
    }
    if (call->kind == RECV) {
        return is_own(rank, call->to, call->count) && receive_from(rank, index);
    }
    for (int i = 0; i < size; ++i) {
        const noted_t *other = &asked.calls[i][index];
        if (index >= asked.count[i] || other->kind != call->kind || other->count != call->count ||
            other->peer != call->peer) {
            return false;
        }
    }
    if (!is_own(rank, call->from, call->count * (call->kind == REDUCE_SCATTER ? (size_t)size : 1)) ||
        !is_own(rank, call->to, call->count * (call->kind == ALL_GATHER ? (size_t)size : 1))) {
        return false;
    }
    switch (call->kind) {
    case ALL_REDUCE:
        add_up(size, index, 0, call->count, call->to);
        break;
    case ALL_GATHER:
        for (int i = 0; i < size; ++i) {
            memcpy(call->to + (size_t)i * call->count, as_before(asked.calls[i][index].from),
                   sizeof(int) * call->count);
        }
        break;
    case REDUCE_SCATTER:
        add_up(size, index, (size_t)rank * call->count, call->count, call->to);
        break;
    case BROADCAST:
        memcpy(call->to, as_before(asked.calls[call->peer][index].from), sizeof(int) * call->count);
        break;
    default:
        if (rank == call->peer) {
            add_up(size, index, 0, call->count, call->to);
        }
        break;
    }
    return true;
}

static int operand(int rank, size_t index)
{
    return 1000 * (rank + 1) + (int)index;
}

static void fill(const bench_layout_t *layout, bool in_place)
{
    const bench_piece_t input = bench_layout_input(layout, in_place);
    int *both = &buffers[layout->rank][0][0];

    for (size_t i = 0; i < 2 * (size_t)ROOM; ++i) {
        both[i] = UNTOUCHED;
    }
    for (size_t i = 0; i < input.count; ++i) {
        both[(input.in_recv ? (size_t)ROOM : 0) + input.first + i] = operand(layout->rank, i);
    }
}

/* Elements of the result that are wrong. In place NCCL leaves that of a reduce-scatter where the operand was. */
static size_t count_wrong(const bench_layout_t *layout, bool in_place)
{
    const bench_coll_t *coll = layout->coll;
    const int *result = buffers[layout->rank][1];
    size_t wrong = 0, end = 0;

    for (int i = 0; i < bench_layout_segments(layout, in_place); ++i) {
        bench_segment_t segment = bench_layout_segment(layout, i);

        if (bench_nccl_serves(coll, in_place) == BENCH_SERVES_TIME) {
            segment.first = segment.operand_first;
        }
        for (size_t j = 0; j < segment.count; ++j) {
            int value = 0;
            for (int rank = segment.first_rank; rank < segment.end_rank; ++rank) {
                value += operand(rank, segment.operand_first + j);
            }
            wrong += result[segment.first + j] != value;
        }
        end = segment.first + segment.count;
    }
    for (size_t i = end; bench_layout_keeps_rest(layout, in_place) && i < ROOM; ++i) {
        wrong += result[i] != UNTOUCHED;
    }
    return wrong;
}

static void try_call(const bench_coll_t *coll, int size, int root, size_t bytes, bool in_place)
{
    const size_t count = bench_layout_max_count(coll, size, bytes, sizeof(int));
    const bench_type_t type = {.name = "int32", .size = sizeof(int), .nccl = 2};
    const bench_op_t sum = {.name = "sum", .nccl = 0};
    bench_layout_t layout[MAX_RANKS];
    bool ok = true;
    size_t wrong = 0;

    memset(&asked, 0, sizeof(asked));
    for (int rank = 0; rank < size; ++rank) {
        ok = bench_layout_open(&layout[rank], coll, rank, size, root, count, MPI_DATATYPE_NULL, sizeof(int)) && ok;
        fill(&layout[rank], in_place);
    }
    memcpy(before, buffers, sizeof(before));
    for (int rank = 0; ok && rank < size; ++rank) {
        const bench_operation_t operation = {.send = (char *)buffers[rank][0],
                                             .recv = (char *)buffers[rank][1],
                                             .type = &type,
                                             .op = &sum,
                                             .layout = &layout[rank],
                                             .in_place = in_place};
        asked.rank = rank;
        ok = bench_nccl_call(&functions, &operation, NULL, NULL) == 0 && asked.in_group == 0;
    }
    for (int rank = 0; ok && rank < size; ++rank) {
        for (int i = 0; ok && i < asked.count[rank]; ++i) {
            ok = carry_out(size, rank, i);
        }
    }
    for (int rank = 0; ok && rank < size; ++rank) {
        wrong += count_wrong(&layout[rank], in_place);
    }
    for (int rank = 0; rank < size; ++rank) {
        bench_layout_close(&layout[rank]);
    }
    if (!ok || wrong != 0) {
        printf("%s, %d ranks, root %d, %zu bytes, %s place: %s, %zu wrong\n", coll->name, size, root, bytes,
               in_place ? "in" : "out of", ok ? "called" : "calls that do not match", wrong);
        ++failures;
    }
}

int main(int argc, char **argv)
{
    static const size_t bytes[] = {4, 20, 4096, 4 * ROOM};
    int tried = 0;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < bench_coll_count; ++i) {
        const bench_coll_t *coll = &bench_colls[i];
        if (coll->is_of_neighbors) {
            continue;
        }
        for (int size = 1; size <= MAX_RANKS; ++size) {
            for (int root = 0; root < (coll->has_root ? size : 1); ++root) {
                for (size_t j = 0; j < 2 * sizeof(bytes) / sizeof(bytes[0]); ++j) {
                    const bool in_place = j % 2 == 1;
                    if (bench_nccl_serves(coll, in_place) == BENCH_SERVES_NOT || (!in_place && !coll->in_place) ||
                        bench_layout_max_count(coll, size, bytes[j / 2], sizeof(int)) == 0) {
                        continue;
                    }
                    try_call(coll, size, root, bytes[j / 2], in_place);
                    ++tried;
                }
            }
        }
    }
    printf("%d calls, %d failed\n", tried, failures);
    MPI_Finalize();
    return failures == 0 && tried > 0 ? 0 : 1;
}
