/* A conjugate-gradient solver that is one kernel: no turn of it returns to the CPU. */
#include <math.h>

#include "common.h"

#define CELLS 40 /* of a rank */

/* Returns the solution that the solver is to find, at a cell. `cell` counts the cells of all ranks. */
static double exact(int cell)
{
    return (double)(cell % 7) - 3.0;
}

/* Makes the right-hand side of a known solution, and compares what the kernel finds with that. */
int main(int argc, char **argv)
{
    solver_args_t args = {.n = CELLS, .tolerance = 1e-20};
    double x[CELLS], b[CELLS];
    MPIX_Mscclpp_channels channels;
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_room room;
    mpix_memory_channel_t handles[2];
    int peers[2], peer_count = 0, wrong = 0;
    unsigned turns;
    void *base;

    begin(&argc, &argv);
    for (int i = 0; i < CELLS; ++i) {
        const int cell = rank * CELLS + i;
        const double below = cell > 0 ? exact(cell - 1) : 0, above = cell + 1 < ranks * CELLS ? exact(cell + 1) : 0;

        b[i] = 2 * exact(cell) - below - above;
    }
    if (rank > 0) {
        peers[peer_count++] = rank - 1;
    }
    if (rank + 1 < ranks) {
        peers[peer_count++] = rank + 1;
    }
    MPIX_Mscclpp_memory_alloc(MPI_COMM_WORLD, 8 * sizeof(double), &base, &memory);
    MPIX_Mscclpp_channels_create(memory, MPIX_MSCCLPP_CHANNEL_MEMORY, peer_count, peers, 1, &channels);
    MPIX_Mscclpp_channels_get_device(channels, MPIX_MSCCLPP_DEVICE_ABI, handles, sizeof(handles[0]));
    MPIX_Mscclpp_room_create(MPI_COMM_WORLD, 1, sizeof(double), &room);
    MPIX_Mscclpp_room_get_device(room, MPIX_MSCCLPP_DEVICE_ABI, &args.room, sizeof(args.room));
    /* The first and the last rank have one neighbour, and do not use the other of these two. */
    args.below = handles[0];
    args.above = handles[peer_count - 1];
    args.borders = base;
    args.x = stage_alloc(sizeof(x));
    args.r = stage_alloc(sizeof(b));
    args.p = stage_alloc(sizeof(x) + 2 * sizeof(double));
    args.ap = stage_alloc(sizeof(x));
    args.partial = stage_alloc((stage_threads() + 1) * sizeof(double));
    args.turns = stage_alloc(sizeof(turns));
    args.max_turns = 4 * (unsigned)ranks * CELLS;
    stage_to_device(args.r, b, sizeof(b));

    solver_launch(1, &args);
    stage_wait();

    stage_to_host(x, args.x, sizeof(x));
    stage_to_host(&turns, args.turns, sizeof(turns));
    for (int i = 0; i < CELLS; ++i) {
        wrong += !(fabs(x[i] - exact(rank * CELLS + i)) < 1e-6);
    }
    wrong += turns == args.max_turns;
    MPIX_Mscclpp_room_free(&room);
    MPIX_Mscclpp_channels_free(&channels);
    MPIX_Mscclpp_memory_free(&memory);
    stage_free(args.x);
    stage_free(args.r);
    stage_free(args.p);
    stage_free(args.ap);
    stage_free(args.partial);
    stage_free(args.turns);
    return finish("conjugate gradients in one kernel", wrong);
}
