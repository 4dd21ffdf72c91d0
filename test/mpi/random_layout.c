/* Where the blocks of random calls lie, and what they hold. */
#include <string.h>

#include "test/mpi/random_call.h"

/* Types by the places of an element's basics. Their numbers of basics divide ROUND. */
enum { SHAPES = 7, SIZES = 3, ROUND = 6, GAP = 6 };
static const struct {
    int basics, extent, places[3];
} shapes[SHAPES] = {{1, 1, {0}},       {2, 3, {0, 2}},    {3, 3, {0, 1, 2}}, {1, 2, {0}},
                    {3, 6, {0, 1, 4}}, {3, 4, {1, 3, 4}}, {2, 3, {2, 0}}};
static MPI_Datatype types[SIZES][SHAPES];

void random_types_make(void)
{
    const MPI_Datatype basics[SIZES] = {MPI_BYTE, MPI_INT, MPI_INT64_T};

    for (int size = 0; size < SIZES; ++size) {
        for (int shape = 0; shape < SHAPES; ++shape) {
            const int lengths[3] = {1, 1, 1};
            MPI_Datatype plain;
            int bytes;

            MT_MPI(MPI_Type_size(basics[size], &bytes));
            MT_MPI(MPI_Type_indexed(shapes[shape].basics, lengths, shapes[shape].places, basics[size], &plain));
            MT_MPI(MPI_Type_create_resized(plain, 0, (MPI_Aint)shapes[shape].extent * bytes, &types[size][shape]));
            MT_MPI(MPI_Type_commit(&types[size][shape]));
            MT_MPI(MPI_Type_free(&plain));
        }
    }
}

void random_types_free(void)
{
    for (int size = 0; size < SIZES; ++size) {
        for (int shape = 0; shape < SHAPES; ++shape) {
            MT_MPI(MPI_Type_free(&types[size][shape]));
        }
    }
}

static bool differ(random_coll_t coll)
{
    return coll >= RANDOM_ALLGATHERV && coll <= RANDOM_ALLTOALLW;
}

static bool is_exchange(random_coll_t coll)
{
    return RANDOM_ALLTOALL == coll || RANDOM_ALLTOALLV == coll || RANDOM_ALLTOALLW == coll;
}

static bool is_scatter(random_coll_t coll)
{
    return RANDOM_SCATTER == coll || RANDOM_SCATTERV == coll;
}

static bool is_gather(random_coll_t coll)
{
    return RANDOM_GATHER == coll || RANDOM_GATHERV == coll;
}

uint8_t random_byte(uint64_t seed, int rank, long place)
{
    return (uint8_t)(mt_mix(seed, (uint64_t)rank, (uint64_t)(place / 8)) >> place % 8 * 8);
}

/* The number of basics that rank `from` has for rank `to`. In place, two ranks have as many for one another. */
static int count_basics(const random_call_t *call, int from, int to)
{
    const int low = from < to ? from : to, high = from < to ? to : from;
    uint64_t value;

    if (!differ(call->coll)) {
        return call->count;
    }
    value = is_scatter(call->coll)     ? mt_mix(call->seed, 2, (uint64_t)to)
            : !is_exchange(call->coll) ? mt_mix(call->seed, 2, (uint64_t)from)
            : call->in_place           ? mt_mix(call->seed, (uint64_t)low, (uint64_t)high)
                                       : mt_mix(call->seed, (uint64_t)from, (uint64_t)to);
    return value % 5 == 0 ? 0 : (int)(value / 5 % (uint64_t)(2 * call->count / ROUND + 1)) * ROUND;
}

static int count_blocks(const random_call_t *call, int rank, bool sends)
{
    const int most = call->ranks.size;

    if (is_exchange(call->coll)) {
        return most;
    }
    if (RANDOM_BCAST == call->coll) {
        return (rank == call->root) == sends ? 1 : 0;
    }
    if (is_scatter(call->coll)) {
        return !sends ? 1 : rank == call->root ? most : 0;
    }
    return sends ? 1 : !is_gather(call->coll) || rank == call->root ? most : 0;
}

/* Places a block behind the `next` ones; if it only is sent, perhaps over them. Returns the place behind it. */
static long place_block(const random_call_t *call, random_source_t *source, random_block_t *block, long next,
                        bool sends)
{
    const long extent = shapes[block->shape].extent, unit = RANDOM_ALLTOALLW == call->coll ? 1 : extent;

    if (sends && !call->in_place && random_chance(source, 25)) {
        next /= 2;
    } else if (random_chance(source, 30)) {
        next += random_below(source, 20);
    }
    block->place = (next + unit - 1) / unit * unit;
    return block->place + block->count * extent + GAP;
}

/* Lays out one side of a rank: blocks of one size in the order of ranks, others in any order and with gaps. */
static void lay_out_side(const random_call_t *call, random_source_t *source, int rank, bool sends, random_side_t *side)
{
    const int common_shape = call->dense || random_chance(source, 50) ? 0 : random_below(source, SHAPES);
    int order[RANDOM_RANKS];
    long next = 0;

    memset(side, 0, sizeof(*side));
    side->seed = mt_mix(call->seed, (uint64_t)call->turn, sends);
    side->count = count_blocks(call, rank, sends);
    side->misalign = random_chance(source, 30) ? random_below(source, 16) / call->basic * call->basic : 0;
    random_order(source, order, side->count);
    for (int i = 0; i < side->count; ++i) {
        const int index = differ(call->coll) ? order[i] : i;
        const bool has_list = is_exchange(call->coll) || (sends ? is_scatter(call->coll) : !is_scatter(call->coll));
        const int peer = has_list && RANDOM_BCAST != call->coll ? index : call->root;
        random_block_t *block = &side->blocks[index];
        long end;

        block->shape = RANDOM_ALLTOALLW == call->coll && !call->dense ? random_below(source, SHAPES) : common_shape;
        block->count = count_basics(call, sends ? rank : peer, sends ? peer : rank) / shapes[block->shape].basics;
        if (differ(call->coll) && has_list) {
            end = place_block(call, source, block, next, sends);
        } else {
            block->place = (long)index * block->count * shapes[block->shape].extent;
            end = block->place + block->count * shapes[block->shape].extent + GAP;
        }
        next = end > next ? end : next;
    }
    side->length = next;
}

/* Lays out both sides of a rank, with what follows from a call in place. */
static void lay_out(const random_call_t *call, int rank, random_side_t *send, random_side_t *recv)
{
    random_source_t source = {mt_mix(call->seed, 3, (uint64_t)rank)};

    lay_out_side(call, &source, rank, false, recv);
    lay_out_side(call, &source, rank, true, send);
    if (!call->in_place) {
        return;
    }
    if (is_scatter(call->coll)) {
        recv->count = rank == call->root ? 0 : recv->count;
    } else if (is_exchange(call->coll)) {
        *send = *recv;
    } else if (!is_gather(call->coll) || rank == call->root) {
        *send = *recv;
        send->count = 1;
        send->blocks[0] = recv->blocks[rank];
    }
}

bool random_input_in_output(const random_call_t *call)
{
    return call->in_place && !is_scatter(call->coll) && RANDOM_BCAST != call->coll &&
           (!(is_gather(call->coll) || RANDOM_REDUCE == call->coll) || call->ranks.rank == call->root);
}

/* Writes MPI's lists of one side. */
static void list_blocks(const random_call_t *call, const random_side_t *side, int *counts, int *displs,
                        MPI_Datatype *block_types)
{
    const int size = 1 == call->basic ? 0 : 4 == call->basic ? 1 : 2;

    for (int i = 0; i < RANDOM_RANKS; ++i) {
        const random_block_t *block = &side->blocks[i < side->count ? i : 0];

        counts[i] = side->count > 0 ? block->count : 0;
        displs[i] = (int)(RANDOM_ALLTOALLW == call->coll ? block->place * call->basic
                                                         : block->place / shapes[block->shape].extent);
        block_types[i] = side->count > 0 ? types[size][block->shape] : MPI_BYTE;
    }
}

void random_lay_out(random_call_t *call)
{
    lay_out(call, call->ranks.rank, &call->send, &call->recv);
    list_blocks(call, &call->send, call->send_counts, call->send_displs, call->send_types);
    list_blocks(call, &call->recv, call->recv_counts, call->recv_displs, call->recv_types);
}

/* Place of a basic of a block, in bytes. */
static long place_of(const random_call_t *call, const random_block_t *block, int index)
{
    const int basics = shapes[block->shape].basics;

    return (block->place + (long)(index / basics) * shapes[block->shape].extent +
            shapes[block->shape].places[index % basics]) *
           call->basic;
}

void random_expect_blocks(const random_call_t *call, char *wanted)
{
    const bool from_root = RANDOM_BCAST == call->coll || is_scatter(call->coll);

    for (int i = 0; i < call->recv.count; ++i) {
        const random_block_t *to = &call->recv.blocks[i], *from;
        const int sender = from_root ? call->root : i, basics = to->count * shapes[to->shape].basics;
        random_side_t send, recv;

        lay_out(call, sender, &send, &recv);
        from = &send.blocks[1 == send.count ? 0 : call->ranks.rank];
        for (int k = 0; k < basics; ++k) {
            for (int byte = 0; byte < call->basic; ++byte) {
                wanted[place_of(call, to, k) + byte] =
                    (char)random_byte(send.seed, sender, place_of(call, from, k) + byte);
            }
        }
    }
}
