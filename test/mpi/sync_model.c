#include "test/mpi/sync_model.h"

#include <stdio.h>

#define FRESH_EVERY 32 /* rounds with one allocation */
#define FULL_EVERY 16  /* all of the result is looked at in one of so many rounds, and in the others parts of it */

/* A pageable copy of so many bytes is still under way when it returns, one on the device if it is longer. */
#define PAGEABLE_BYTES ((size_t)590000)
#define LONG_BYTES ((size_t)32 << 20)
#define TWIN_LONG_BYTES ((size_t)1 << 20)

const path_t sy_paths[] = {
    {"linger", ALLREDUCE, BLOCKING, BY_LINGERING, NULL, NULL, false},
    {"launch", ALLREDUCE, BLOCKING, BY_LAUNCHES, "linger", "off", false},
    {"zerocopy", ALLREDUCE, BLOCKING, BY_KERNELS, "algorithm", "zerocopy", false},
    {"engines", ALLREDUCE, BLOCKING, BY_KERNELS, "algorithm", "engines", true},
    {"scratch", ALLREDUCE, BLOCKING, BY_KERNELS, "algorithm", "scratch", false},
    {"oneshot_put", ALLREDUCE, BLOCKING, BY_KERNELS, "algorithm", "oneshot_put", false},
    {"nodes", ALLREDUCE, BLOCKING, BY_KERNELS, "ranks_per_node", "1", false},
    {"stage", ALLREDUCE, BLOCKING, BY_STAGING, "algorithm", "stage", false},
    {"bcast", BCAST, BLOCKING, BY_STAGING, NULL, NULL, false},
    {"allgather", ALLGATHER, BLOCKING, BY_STAGING, NULL, NULL, false},
    {"alltoall", ALLTOALL, BLOCKING, BY_STAGING, NULL, NULL, false},
    {"bcast_linger", BCAST, BLOCKING, BY_LINGERING, "bcast_algorithm", "packets", false},
    {"bcast_packets", BCAST, BLOCKING, BY_LAUNCHES, "bcast_algorithm", "packets", false},
    {"bcast_zerocopy", BCAST, BLOCKING, BY_LAUNCHES, "bcast_algorithm", "zerocopy", false},
    {"bcast_engines", BCAST, BLOCKING, BY_KERNELS, "bcast_algorithm", "engines", true},
    {"bcast_scratch", BCAST, BLOCKING, BY_LAUNCHES, "bcast_algorithm", "scratch", false},
    {"bcast_puts", BCAST, BLOCKING, BY_LAUNCHES, "bcast_algorithm", "puts", false},
    {"allgather_linger", ALLGATHER, BLOCKING, BY_LINGERING, "allgather_algorithm", "packets", false},
    {"allgather_packets", ALLGATHER, BLOCKING, BY_LAUNCHES, "allgather_algorithm", "packets", false},
    {"allgather_zerocopy", ALLGATHER, BLOCKING, BY_LAUNCHES, "allgather_algorithm", "zerocopy", false},
    {"allgather_engines", ALLGATHER, BLOCKING, BY_KERNELS, "allgather_algorithm", "engines", true},
    {"allgather_scratch", ALLGATHER, BLOCKING, BY_LAUNCHES, "allgather_algorithm", "scratch", false},
    {"allgather_puts", ALLGATHER, BLOCKING, BY_LAUNCHES, "allgather_algorithm", "puts", false},
    {"alltoall_linger", ALLTOALL, BLOCKING, BY_LINGERING, "alltoall_algorithm", "packets", false},
    {"alltoall_packets", ALLTOALL, BLOCKING, BY_LAUNCHES, "alltoall_algorithm", "packets", false},
    {"alltoall_zerocopy", ALLTOALL, BLOCKING, BY_LAUNCHES, "alltoall_algorithm", "zerocopy", false},
    {"alltoall_engines", ALLTOALL, BLOCKING, BY_KERNELS, "alltoall_algorithm", "engines", true},
    {"alltoall_scratch", ALLTOALL, BLOCKING, BY_LAUNCHES, "alltoall_algorithm", "scratch", false},
    {"alltoall_puts", ALLTOALL, BLOCKING, BY_LAUNCHES, "alltoall_algorithm", "puts", false},
    {"reduce_scatter_block_linger", REDUCE_SCATTER, BLOCKING, BY_LINGERING, "reduce_scatter_block_algorithm", "packets",
     false},
    {"reduce_scatter_block_packets", REDUCE_SCATTER, BLOCKING, BY_LAUNCHES, "reduce_scatter_block_algorithm", "packets",
     false},
    {"reduce_scatter_block_zerocopy", REDUCE_SCATTER, BLOCKING, BY_LAUNCHES, "reduce_scatter_block_algorithm",
     "zerocopy", false},
    {"reduce_scatter_block_scratch", REDUCE_SCATTER, BLOCKING, BY_LAUNCHES, "reduce_scatter_block_algorithm", "scratch",
     false},
    {"reduce_scatter_block_puts", REDUCE_SCATTER, BLOCKING, BY_LAUNCHES, "reduce_scatter_block_algorithm", "puts",
     false},
    {"iallreduce", ALLREDUCE, NONBLOCKING, BY_KERNELS, NULL, NULL, false},
    {"stage_iallreduce", ALLREDUCE, NONBLOCKING, BY_STAGING, "algorithm", "stage", false},
    {"iallgather", ALLGATHER, NONBLOCKING, BY_KERNELS, NULL, NULL, false},
    {"stage_iallgather", ALLGATHER, NONBLOCKING, BY_STAGING, "algorithm", "stage", false},
    {"iallgather_engines", ALLGATHER, NONBLOCKING, BY_KERNELS, "allgather_algorithm", "engines", true},
    {"allgather_init_engines", ALLGATHER, PERSISTENT, BY_KERNELS, "allgather_algorithm", "engines", true},
    {"allreduce_init", ALLREDUCE, PERSISTENT, BY_KERNELS, NULL, NULL, false},
    {"stage_allreduce_init", ALLREDUCE, PERSISTENT, BY_STAGING, "algorithm", "stage", false},
    {"allgather_init", ALLGATHER, PERSISTENT, BY_KERNELS, NULL, NULL, false},
    {"stage_allgather_init", ALLGATHER, PERSISTENT, BY_STAGING, "algorithm", "stage", false},
};
const int sy_path_count = (int)(sizeof(sy_paths) / sizeof(sy_paths[0]));

const before_t sy_befores[] = {
    {"host", FROM_HOST, IN_PLACE},
    {"host_operand", FROM_HOST, OPERAND},
    {"host_result", FROM_HOST, RESULT},
    {"device", FROM_DEVICE, IN_PLACE},
    {"device_operand", FROM_DEVICE, OPERAND},
    {"device_result", FROM_DEVICE, RESULT},
    {"set", SET, IN_PLACE},
    {"set_operand", SET, OPERAND},
    {"set_result", SET, RESULT},
    {"snapshot", SNAPSHOT, IN_PLACE},
    {"snapshot_result", SNAPSHOT, RESULT},
    {"beside_host", BESIDE_BY_HOST, IN_PLACE},
    {"beside_device", BESIDE_BY_DEVICE, IN_PLACE},
};
const int sy_before_count = (int)(sizeof(sy_befores) / sizeof(sy_befores[0]));

bool sy_applies(const path_t *path, const before_t *before)
{
    return BCAST != path->collective || IN_PLACE == before->target;
}

static size_t result_bytes(const path_t *path, int size)
{
    static const size_t usual[SIZES] = {8, 4096, 256u << 10}, large[SIZES] = {256u << 10, 1u << 20, 2u << 20};

    return path->large ? large[size] : usual[size];
}

size_t sy_bytes(const path_t *path, const before_t *before)
{
    const size_t largest = result_bytes(path, SIZES - 1), beside = PAGEABLE_BYTES - (256u << 10);

    if (FROM_HOST == before->act || BESIDE_BY_HOST == before->act) {
        return largest + beside;
    }
    return (mt_twin ? TWIN_LONG_BYTES : LONG_BYTES) + largest + beside;
}

size_t sy_max_bytes(const path_t *path)
{
    size_t most = 0;

    for (int i = 0; i < sy_before_count; ++i) {
        size_t bytes = sy_bytes(path, &sy_befores[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The sizes, families and ways to look at the result are combined in all ways, as the number of sizes is odd. */
void sy_describe(round_t *round, int index, const mt_copies_t *families, int count)
{
    round->size = index % SIZES;
    round->copies = &families[index / SIZES % count];
    round->again = 1 == index / (SIZES * count) % 2;
    round->fresh = 0 == index % FRESH_EVERY;
    round->full = 0 == index % FULL_EVERY;
    round->alone = 3 == index % 4 && BESIDE_BY_HOST != round->before->act && BESIDE_BY_DEVICE != round->before->act;
    round->words = result_bytes(round->path, round->size) / sizeof(unsigned);
    round->count = (int)round->words;
    if (ALLREDUCE != round->path->collective && BCAST != round->path->collective) {
        round->count = round->count < 2 * mt_size ? 2 : round->count / mt_size;
        round->words = (size_t)(round->count * mt_size);
    }
    round->results = REDUCE_SCATTER == round->path->collective ? (size_t)round->count : round->words;
    round->bytes = sy_bytes(round->path, round->before);
    round->offset = round->bytes - sizeof(unsigned) * round->words;
}

/* What a round of this number adds to the words of all its contents but those of bytes that are set. */
static unsigned of_number(const round_t *round)
{
    return RANKS_MAX * ((unsigned)round->number % (1u << 20));
}

/* Below any sum of two or more, and small enough that sums of RANKS_MAX do not overflow. */
image_t sy_operand(const round_t *round, int rank)
{
    if (SET == round->before->act && RESULT != round->before->target) {
        unsigned most = 127u / (unsigned)mt_size, half = most / 2;
        return (image_t){(most - (unsigned)(round->number + rank) % (most - half)) * 0x01010101u, 0};
    }
    return (image_t){(1u << 25) + of_number(round) + (unsigned)rank, 3};
}

image_t sy_old(const round_t *round)
{
    return SET == round->before->act ? (image_t){0x01010101u, 0} : (image_t){5 + of_number(round), 1};
}

image_t sy_beside(const round_t *round)
{
    return (image_t){9 + of_number(round), 1};
}

image_t sy_target(const round_t *round)
{
    return RESULT == round->before->target ? sy_old(round) : sy_operand(round, mt_rank);
}

static unsigned word_of(image_t image, size_t index)
{
    return image.base + (unsigned)index * image.step;
}

void sy_fill(void *to, image_t image, size_t words)
{
    unsigned *word = to;

    for (size_t i = 0; i < words; ++i) {
        word[i] = word_of(image, i);
    }
}

unsigned sy_expect_result(const round_t *round, size_t index)
{
    const size_t count = (size_t)round->count;
    unsigned sum = 0;

    switch (round->path->collective) {
    case BCAST:
        return word_of(sy_operand(round, round->number % mt_size), index);
    case ALLGATHER:
        return word_of(sy_operand(round, (int)(index / count)), index);
    case ALLTOALL:
        return word_of(sy_operand(round, (int)(index / count)), (size_t)mt_rank * count + index % count);
    case REDUCE_SCATTER:
        index += (size_t)mt_rank * count;
        /* fall through */
    default:
        for (int rank = 0; rank < mt_size; ++rank) {
            sum += word_of(sy_operand(round, rank), index);
        }
        return sum;
    }
}

unsigned sy_expect_snapshot(const round_t *round, size_t index)
{
    return word_of(sy_target(round), index);
}

unsigned sy_expect_beside(const round_t *round, size_t index)
{
    return word_of(sy_beside(round), index);
}
