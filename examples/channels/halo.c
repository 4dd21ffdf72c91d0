/*
 * Jacobi's method on a box in three dimensions, spread over the ranks: the kernel that sends the faces computes the
 * interior while they are on their way. Usage: halo [ports]: by port channels, else by memory channels.
 */
#include "common.h"

#define N 6 /* cells of a rank in each direction */
#define STEPS 7
#define BLOCKS 8

static double start(int x, int y, int z)
{
    return (double)((x * 7 + y * 5 + z * 3) % 11);
}

/* The whole box on one rank; outside it, all cells are 0. */
static double *solve(const int dims[3])
{
    const int X = dims[0] * N + 2, Y = dims[1] * N + 2, Z = dims[2] * N + 2;
    const size_t bytes = (size_t)(X * Y * Z) * sizeof(double);
    double *from = must(calloc(1, bytes)), *to = must(calloc(1, bytes)), *other;

    for (int z = 1; z < Z - 1; ++z) {
        for (int y = 1; y < Y - 1; ++y) {
            for (int x = 1; x < X - 1; ++x) {
                from[(z * Y + y) * X + x] = start(x - 1, y - 1, z - 1);
            }
        }
    }
    for (int step = 0; step < STEPS; ++step) {
        for (int z = 1; z < Z - 1; ++z) {
            for (int y = 1; y < Y - 1; ++y) {
                for (int x = 1; x < X - 1; ++x) {
                    const double *at = &from[(z * Y + y) * X + x];

                    to[(z * Y + y) * X + x] = (at[-1] + at[1] + at[-X] + at[X] + *(at - X * Y) + *(at + X * Y)) / 6.0;
                }
            }
        }
        other = from;
        from = to;
        to = other;
    }
    free(to);
    return from;
}

int main(int argc, char **argv)
{
    const int periods[3] = {0, 0, 0}, ports = argc > 1 && strcmp(argv[1], "ports") == 0;
    const size_t cells = (size_t)(N + 2) * (N + 2) * (N + 2);
    int dims[3] = {0, 0, 0}, at[3], peers[FACES], faces[FACES], n = 0, wrong = 0;
    double *box = must(calloc(cells, sizeof(double))), *right;
    mpix_memory_channel_t memory_channels[FACES];
    mpix_port_channel_t port_channels[FACES];
    MPIX_Mscclpp_channels channels;
    MPIX_Mscclpp_memory memory;
    halo_args_t args;
    MPI_Comm grid;
    void *base;

    begin(&argc, &argv);
    memset(&args, 0, sizeof(args));
    args.ports = ports;
    args.room = N * N;
    args.n[0] = args.n[1] = args.n[2] = N;
    MPI_Dims_create(ranks, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, 3, at);
    MPIX_Mscclpp_memory_alloc(MPI_COMM_WORLD, (MPI_Aint)(2 * FACES * 2 * N * N * sizeof(double)), &base, &memory);
    args.faces = base;
    for (int face = 0; face < FACES; ++face) {
        int low, high, peer;

        MPI_Cart_shift(grid, face / 2, 1, &low, &high);
        peer = face % 2 == 0 ? low : high;
        if (peer != MPI_PROC_NULL) {
            args.has[face] = 1;
            faces[n] = face;
            peers[n++] = peer;
        }
    }
    MPIX_Mscclpp_channels_create(memory, ports ? MPIX_MSCCLPP_CHANNEL_PORT : MPIX_MSCCLPP_CHANNEL_MEMORY, n, peers, 1,
                                 &channels);
    if (ports) {
        MPIX_Mscclpp_channels_get_device(channels, MPIX_MSCCLPP_DEVICE_ABI, port_channels, sizeof(port_channels[0]));
    } else {
        MPIX_Mscclpp_channels_get_device(channels, MPIX_MSCCLPP_DEVICE_ABI, memory_channels,
                                         sizeof(memory_channels[0]));
    }
    for (int p = 0; p < n; ++p) {
        if (ports) {
            args.port[faces[p]] = port_channels[p];
        } else {
            args.memory[faces[p]] = memory_channels[p];
        }
    }
    for (int z = 0; z < N; ++z) {
        for (int y = 0; y < N; ++y) {
            for (int x = 0; x < N; ++x) {
                box[((z + 1) * (N + 2) + y + 1) * (N + 2) + x + 1] = start(at[0] * N + x, at[1] * N + y, at[2] * N + z);
            }
        }
    }
    args.from = stage_alloc(cells * sizeof(double));
    args.to = stage_alloc(cells * sizeof(double));
    stage_to_device(args.from, box, cells * sizeof(double));

    MPIX_Mscclpp_channels_open(channels);
    for (int step = 0; step < STEPS; ++step) {
        double *from = args.from;

        args.parity = (unsigned)step % 2;
        halo_launch(BLOCKS, &args);
        halo_edge_launch(BLOCKS, &args);
        args.from = args.to;
        args.to = from;
    }
    stage_wait();
    MPIX_Mscclpp_channels_close(channels);

    stage_to_host(box, args.from, cells * sizeof(double));
    right = solve(dims);
    for (int z = 1; z <= N; ++z) {
        for (int y = 1; y <= N; ++y) {
            for (int x = 1; x <= N; ++x) {
                const int X = dims[0] * N + 2, Y = dims[1] * N + 2;

                wrong += box[(z * (N + 2) + y) * (N + 2) + x] !=
                         right[((at[2] * N + z) * Y + at[1] * N + y) * X + at[0] * N + x];
            }
        }
    }
    MPIX_Mscclpp_channels_free(&channels);
    MPIX_Mscclpp_memory_free(&memory);
    MPI_Comm_free(&grid);
    stage_free(args.from);
    stage_free(args.to);
    free(right);
    free(box);
    return finish(ports ? "halo exchange by ports" : "halo exchange by memory channels", wrong);
}
