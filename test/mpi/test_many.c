/*
 * Every blocking collective once with small blocks and once with larger ones, for any number of ranks. Kernels have to
 * serve all of them. Blocks consist of integers that tell their sender, receiver and place.
 */
#include <stdlib.h>

#include "test/mpi/mpi_test.h"

#define MOST 700 /* integers of a block, at most */

static mt_buffer_t in, out;
static int32_t *image;
static int *counts, *displs, *send_counts, *send_displs;
static int block; /* integers of a block; of blocks that differ, the least */

static int32_t value(int from, int to, int i)
{
    return (int32_t)(mt_mix((uint64_t)from, (uint64_t)to, (uint64_t)i) & 0xffff);
}

/* Integers of the block of `from` for `to` where they differ. */
static int varied(int from, int to)
{
    return block + (from + 2 * to) % 3;
}

/* Fills the input with blocks for all ranks, or with one block for all of them, which stands for that for rank 0. */
static void fill(int blocks, bool differ)
{
    int at = 0;

    for (int to = 0; to < blocks; ++to) {
        for (int i = 0; i < (differ ? varied(mt_rank, to) : block); ++i) {
            image[at++] = value(mt_rank, to, i);
        }
    }
    mt_buffer_put(&in, image, (size_t)at * sizeof(*image));
    mt_buffer_set(&out, 0xff);
}

/* The output has to be the blocks of all ranks for `to`. */
static void expect_blocks(const char *what, int to, bool differ)
{
    int at = 0;
    bool good = true;

    mt_buffer_get(&out, image, out.size);
    for (int from = 0; from < mt_size; ++from) {
        for (int i = 0; i < (differ ? varied(from, to) : block); ++i) {
            good = good && image[at] == value(from, to, i);
            ++at;
        }
    }
    MT_CHECK(good, "%s of %d integers: wrong", what, block);
}

/* The output has to be one block: that of `from`, or the sum of those of ranks `from` to `end` - 1, for `to`. */
static void expect_block(const char *what, int from, int end, int to)
{
    bool good = true;

    mt_buffer_get(&out, image, out.size);
    for (int i = 0; i < block; ++i) {
        int32_t sum = 0;

        for (int r = from; r < end; ++r) {
            sum += value(r, to, i);
        }
        good = good && image[i] == sum;
    }
    MT_CHECK(good, "%s of %d integers: wrong", what, block);
}

static void layouts(bool by_pair)
{
    int to = 0, from = 0;

    for (int r = 0; r < mt_size; ++r) {
        send_counts[r] = varied(mt_rank, r);
        counts[r] = varied(r, by_pair ? mt_rank : 0);
        send_displs[r] = to;
        displs[r] = from;
        to += send_counts[r];
        from += counts[r];
    }
}

static void moves(int root)
{
    fill(1, false);
    MT_MPI(MPI_Allgather(in.data, block, MPI_INT32_T, out.data, block, MPI_INT32_T, MPI_COMM_WORLD));
    expect_blocks("all-gather", 0, false);
    fill(1, false);
    MT_MPI(MPI_Gather(in.data, block, MPI_INT32_T, out.data, block, MPI_INT32_T, root, MPI_COMM_WORLD));
    if (mt_rank == root) {
        expect_blocks("gather", 0, false);
    }
    fill(mt_size, false);
    MT_MPI(MPI_Alltoall(in.data, block, MPI_INT32_T, out.data, block, MPI_INT32_T, MPI_COMM_WORLD));
    expect_blocks("all-to-all", mt_rank, false);
    fill(mt_size, false);
    MT_MPI(MPI_Scatter(in.data, block, MPI_INT32_T, out.data, block, MPI_INT32_T, root, MPI_COMM_WORLD));
    expect_block("scatter", root, root + 1, mt_rank);
    fill(1, false);
    MT_MPI(MPI_Bcast(mt_rank == root ? in.data : out.data, block, MPI_INT32_T, root, MPI_COMM_WORLD));
    if (mt_rank != root) {
        expect_block("broadcast", root, root + 1, 0);
    }
}

static void moves_that_differ(int root)
{
    layouts(false);
    fill(1, true);
    MT_MPI(MPI_Allgatherv(in.data, send_counts[0], MPI_INT32_T, out.data, counts, displs, MPI_INT32_T, MPI_COMM_WORLD));
    expect_blocks("all-gather-v", 0, true);
    fill(1, true);
    MT_MPI(
        MPI_Gatherv(in.data, send_counts[0], MPI_INT32_T, out.data, counts, displs, MPI_INT32_T, root, MPI_COMM_WORLD));
    if (mt_rank == root) {
        expect_blocks("gather-v", 0, true);
    }
    layouts(true);
    fill(mt_size, true);
    MT_MPI(MPI_Alltoallv(in.data, send_counts, send_displs, MPI_INT32_T, out.data, counts, displs, MPI_INT32_T,
                         MPI_COMM_WORLD));
    expect_blocks("all-to-all-v", mt_rank, true);
    fill(mt_size, true);
    MT_MPI(MPI_Scatterv(in.data, send_counts, send_displs, MPI_INT32_T, out.data, varied(root, mt_rank), MPI_INT32_T,
                        root, MPI_COMM_WORLD));
    expect_block("scatter-v", root, root + 1, mt_rank);
}

static void reductions(int root)
{
    fill(1, false);
    MT_MPI(MPI_Reduce(in.data, out.data, block, MPI_INT32_T, MPI_SUM, root, MPI_COMM_WORLD));
    if (mt_rank == root) {
        expect_block("reduce", 0, mt_size, 0);
    }
    fill(mt_size, false);
    MT_MPI(MPI_Reduce_scatter_block(in.data, out.data, block, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD));
    expect_block("reduce-scatter-block", 0, mt_size, mt_rank);
    for (int r = 0; r < mt_size; ++r) {
        counts[r] = block;
    }
    fill(mt_size, false);
    MT_MPI(MPI_Reduce_scatter(in.data, out.data, counts, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD));
    expect_block("reduce-scatter", 0, mt_size, mt_rank);
    fill(1, false);
    MT_MPI(MPI_Scan(in.data, out.data, block, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD));
    expect_block("scan", 0, mt_rank + 1, 0);
    fill(1, false);
    MT_MPI(MPI_Exscan(in.data, out.data, block, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD));
    if (mt_rank > 0) {
        expect_block("exscan", 0, mt_rank, 0);
    }
    fill(1, false);
    MT_MPI(MPI_Allreduce(in.data, out.data, block, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD));
    expect_block("all-reduce", 0, mt_size, 0);
}

/*
 * Each rank has a block for the rank on its left, and one for the rank on its right. On the twin, where all memory is
 * device memory, Open MPI's own calls that make a communicator may be staged.
 */
static void neighbours(void)
{
    const int left = (mt_rank + mt_size - 1) % mt_size, right = (mt_rank + 1) % mt_size, periods = 1;
    bool good = true;
    uint64_t staged;
    MPI_Comm ring;

    MT_MPI(MPI_Cart_create(MPI_COMM_WORLD, 1, &mt_size, &periods, 0, &ring));
    fill(2, false);
    staged = mt_staged(ring);
    MT_MPI(MPI_Neighbor_alltoall(in.data, block, MPI_INT32_T, out.data, block, MPI_INT32_T, ring));
    MT_CHECK(mt_staged(ring) == staged, "a neighbourhood all-to-all was staged");
    mt_buffer_get(&out, image, out.size);
    for (int i = 0; i < block; ++i) {
        good = good && image[i] == value(left, 1, i) && image[block + i] == value(right, 0, i);
    }
    MT_CHECK(good, "neighbourhood all-to-all of %d integers: wrong", block);
    MT_MPI(MPI_Comm_free(&ring));
}

int main(int argc, char **argv)
{
    static const int blocks[] = {3, MOST - 2};
    uint64_t staged;
    size_t room;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    room = (size_t)mt_size * MOST * sizeof(*image);
    in = mt_buffer_alloc(MT_DEVICE, room, 4);
    out = mt_buffer_alloc(MT_DEVICE, room, 8);
    image = mt_host_alloc(room);
    counts = calloc((size_t)mt_size * 4, sizeof(*counts));
    displs = counts + mt_size;
    send_counts = displs + mt_size;
    send_displs = send_counts + mt_size;
    staged = mt_staged(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); ++i) {
        block = blocks[i];
        moves((int)i * (mt_size - 1));
        moves_that_differ((int)i * (mt_size - 1));
        reductions(mt_size / 2);
    }
    MT_CHECK(mt_staged(MPI_COMM_WORLD) == staged, "%d calls were staged", (int)(mt_staged(MPI_COMM_WORLD) - staged));
    neighbours();
    mt_buffer_free(&in, "input");
    mt_buffer_free(&out, "output");
    free(image);
    free(counts);
    return mt_finish();
}
