/* Residual add, all-reduce and RMSNorm in one kernel. docs/device-api.md leads from a plain program to this one. */
#include <math.h>

#include "common.h"

#define ROWS 13
#define WIDTH 200
#define BLOCKS 4

/* Return an element of the inputs: of a rank's x, and of the residual, which is the same on all ranks. */
static float x_of(int of_rank, int row, int i)
{
    return (float)((of_rank * 31 + row * 17 + i * 7) % 100) / 50.0f - 1.0f;
}

static float residual_of(int row, int i)
{
    return (float)((row * 13 + i * 3) % 50) / 25.0f;
}

/* Makes a room for BLOCKS blocks and a row, launches the kernel, and compares with the same in doubles on the CPU. */
int main(int argc, char **argv)
{
    float x[ROWS][WIDTH], residual[ROWS][WIDTH];
    rmsnorm_args_t args = {.rows = ROWS, .width = WIDTH};
    MPIX_Mscclpp_room room;
    float *device_residual;
    int wrong = 0;

    begin(&argc, &argv);
    for (int row = 0; row < ROWS; ++row) {
        for (int i = 0; i < WIDTH; ++i) {
            x[row][i] = x_of(rank, row, i);
            residual[row][i] = residual_of(row, i);
        }
    }
    args.x = stage_alloc(sizeof(x));
    device_residual = stage_alloc(sizeof(residual));
    args.residual = device_residual;
    args.partial = stage_alloc(BLOCKS * stage_threads() * sizeof(float));
    stage_to_device(args.x, x, sizeof(x));
    stage_to_device(device_residual, residual, sizeof(residual));
    MPIX_Mscclpp_room_create(MPI_COMM_WORLD, BLOCKS, sizeof(x[0]), &room);
    MPIX_Mscclpp_room_get_device(room, MPIX_MSCCLPP_DEVICE_ABI, &args.room, sizeof(args.room));

    rmsnorm_launch(BLOCKS, &args);
    stage_wait();

    stage_to_host(x, args.x, sizeof(x));
    for (int row = 0; row < ROWS; ++row) {
        double sums[WIDTH], squares = 0;

        for (int i = 0; i < WIDTH; ++i) {
            sums[i] = residual_of(row, i);
            for (int peer = 0; peer < ranks; ++peer) {
                sums[i] += x_of(peer, row, i);
            }
            squares += sums[i] * sums[i];
        }
        for (int i = 0; i < WIDTH; ++i) {
            wrong += !(fabs(x[row][i] - sums[i] / sqrt(squares / WIDTH + 1e-6)) < 1e-4);
        }
    }
    MPIX_Mscclpp_room_free(&room);
    stage_free(args.x);
    stage_free(device_residual);
    stage_free(args.partial);
    return finish("residual add, all-reduce and RMSNorm", wrong);
}
