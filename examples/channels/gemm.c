/* A matrix product whose tiles leave for their owners as soon as they are done. */
#include "common.h"

#define SIZE 24  /* rows and columns of the product */
#define DEPTH 10 /* columns of A and rows of B on each rank */
#define TILES (SIZE / TILE * (SIZE / TILE))

/* Return an element of the inputs A and B of a rank. All of them are small integers, so the sums are exact. */
static float a_of(int of_rank, int row, int k)
{
    return (float)((of_rank * 5 + row * 3 + k) % 7 - 3);
}

static float b_of(int of_rank, int k, int column)
{
    return (float)((of_rank + k * 2 + column * 5) % 9 - 4);
}

/* Launches a block for each tile, and compares this rank's tiles of the product with the sum over all ranks. */
int main(int argc, char **argv)
{
    float a[SIZE][DEPTH], b[DEPTH][SIZE], c[SIZE][SIZE], *device_a, *device_b;
    gemm_args_t args = {.n = SIZE, .depth = DEPTH};
    MPIX_Mscclpp_channels channels;
    MPIX_Mscclpp_memory memory;
    mpix_memory_channel_t *handles;
    int wrong = 0;
    void *base;

    begin(&argc, &argv);
    for (int i = 0; i < SIZE; ++i) {
        for (int k = 0; k < DEPTH; ++k) {
            a[i][k] = a_of(rank, i, k);
            b[k][i] = b_of(rank, k, i);
        }
    }
    MPIX_Mscclpp_memory_alloc(MPI_COMM_WORLD, (MPI_Aint)((1 + (size_t)ranks) * sizeof(c)), &base, &memory);
    handles = all_channels(memory, TILES, &channels);
    device_a = stage_alloc(sizeof(a));
    device_b = stage_alloc(sizeof(b));
    stage_to_device(device_a, a, sizeof(a));
    stage_to_device(device_b, b, sizeof(b));
    args.channels = handles;
    args.tiles = base;
    args.a = device_a;
    args.b = device_b;
    args.c = stage_alloc(sizeof(c));
    args.rank = (unsigned)rank;
    args.ranks = (unsigned)ranks;

    gemm_launch(TILES, &args);
    stage_wait();

    stage_to_host(c, args.c, sizeof(c));
    for (int i = 0; i < SIZE; ++i) {
        for (int j = 0; j < SIZE; ++j) {
            float sum = 0;

            for (int peer = 0; peer < ranks; ++peer) {
                for (int k = 0; k < DEPTH; ++k) {
                    sum += a_of(peer, i, k) * b_of(peer, k, j);
                }
            }
            wrong += (i / TILE * (SIZE / TILE) + j / TILE) % ranks == rank && c[i][j] != sum;
        }
    }
    MPIX_Mscclpp_channels_free(&channels);
    MPIX_Mscclpp_memory_free(&memory);
    stage_free(handles);
    stage_free(device_a);
    stage_free(device_b);
    stage_free(args.c);
    return finish("matrix product, tile by tile", wrong);
}
