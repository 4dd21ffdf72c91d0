/*
 * Jacobi's method on a box in three dimensions, spread over the ranks: the kernel that sends the faces computes the
 * interior while they are on their way. Usage: halo [ports]: by port channels, else by memory channels.
 */
#include "common.h"

#define N 6 /* cells of a rank in each direction */
#define STEPS 7
#define BLOCKS 8

/* Returns the first value of a cell of the whole box. */
static double start_value(int x, int y, int z)
{
    return (double)((x * 7 + y * 5 + z * 3) % 11);
}

/*
 * Does the same steps for the whole box on this rank alone, to compare with. `dims`: ranks along each axis. Cells
 * outside of the box are 0. Returns the cells with a layer of ghost cells around them; the caller frees them.
 */
static double *solve(const int dims[3])
{
    const int size_x = dims[0] * N + 2, size_y = dims[1] * N + 2, size_z = dims[2] * N + 2;
    const size_t bytes = (size_t)(size_x * size_y * size_z) * sizeof(double);
    double *from = not_null(calloc(1, bytes)), *to = not_null(calloc(1, bytes)), *other;

    for (int z = 1; z < size_z - 1; ++z) {
        for (int y = 1; y < size_y - 1; ++y) {
            for (int x = 1; x < size_x - 1; ++x) {
                from[(z * size_y + y) * size_x + x] = start_value(x - 1, y - 1, z - 1);
            }
        }
    }
    for (int step = 0; step < STEPS; ++step) {
        for (int z = 1; z < size_z - 1; ++z) {
            for (int y = 1; y < size_y - 1; ++y) {
                for (int x = 1; x < size_x - 1; ++x) {
                    const double *cell = &from[(z * size_y + y) * size_x + x];

                    to[(z * size_y + y) * size_x + x] = (cell[-1] + cell[1] + cell[-size_x] + cell[size_x] +
                                                         *(cell - size_x * size_y) + *(cell + size_x * size_y)) /
                                                        6.0;
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

/*
 * Divides the box among the ranks, makes a channel to each neighbour, and launches two kernels for each step. The
 * result has to be, bit by bit, that of the same steps on one rank.
 */
int main(int argc, char **argv)
{
    const int periods[3] = {0, 0, 0}, by_ports = argc > 1 && strcmp(argv[1], "ports") == 0;
    const size_t cells = (size_t)(N + 2) * (N + 2) * (N + 2);
    int dims[3] = {0, 0, 0}, coords[3], peers[FACES], faces[FACES], peer_count = 0, wrong = 0;
    double *box = not_null(calloc(cells, sizeof(double))), *expected;
    mpix_memory_channel_t memory_channels[FACES];
    mpix_port_channel_t port_channels[FACES];
    MPIX_Mscclpp_channels channels;
    MPIX_Mscclpp_memory memory;
    halo_args_t args;
    MPI_Comm grid;
    void *base;

    begin(&argc, &argv);
    memset(&args, 0, sizeof(args));
    args.by_ports = by_ports;
    args.face_cells = N * N;
    args.n[0] = args.n[1] = args.n[2] = N;
    MPI_Dims_create(ranks, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, 3, coords);
    MPIX_Mscclpp_memory_alloc(MPI_COMM_WORLD, (MPI_Aint)(2 * FACES * 2 * N * N * sizeof(double)), &base, &memory);
    args.faces = base;
    for (int face = 0; face < FACES; ++face) {
        int low, high, peer;

        MPI_Cart_shift(grid, face / 2, 1, &low, &high);
        peer = face % 2 == 0 ? low : high;
        if (peer != MPI_PROC_NULL) {
            args.has_neighbour[face] = 1;
            faces[peer_count] = face;
            peers[peer_count++] = peer;
        }
    }
    MPIX_Mscclpp_channels_create(memory, by_ports ? MPIX_MSCCLPP_CHANNEL_PORT : MPIX_MSCCLPP_CHANNEL_MEMORY, peer_count,
                                 peers, 1, &channels);
    if (by_ports) {
        MPIX_Mscclpp_channels_get_device(channels, MPIX_MSCCLPP_DEVICE_ABI, port_channels, sizeof(port_channels[0]));
    } else {
        MPIX_Mscclpp_channels_get_device(channels, MPIX_MSCCLPP_DEVICE_ABI, memory_channels,
                                         sizeof(memory_channels[0]));
    }
    /* Channels come in the order of the peers, and kernels take them by face. */
    for (int i = 0; i < peer_count; ++i) {
        if (by_ports) {
            args.port[faces[i]] = port_channels[i];
        } else {
            args.memory[faces[i]] = memory_channels[i];
        }
    }
    for (int z = 0; z < N; ++z) {
        for (int y = 0; y < N; ++y) {
            for (int x = 0; x < N; ++x) {
                box[((z + 1) * (N + 2) + y + 1) * (N + 2) + x + 1] =
                    start_value(coords[0] * N + x, coords[1] * N + y, coords[2] * N + z);
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
    expected = solve(dims);
    for (int z = 1; z <= N; ++z) {
        for (int y = 1; y <= N; ++y) {
            for (int x = 1; x <= N; ++x) {
                const int size_x = dims[0] * N + 2, size_y = dims[1] * N + 2;

                wrong += box[(z * (N + 2) + y) * (N + 2) + x] !=
                         expected[((coords[2] * N + z) * size_y + coords[1] * N + y) * size_x + coords[0] * N + x];
            }
        }
    }
    MPIX_Mscclpp_channels_free(&channels);
    MPIX_Mscclpp_memory_free(&memory);
    MPI_Comm_free(&grid);
    stage_free(args.from);
    stage_free(args.to);
    free(expected);
    free(box);
    return finish(by_ports ? "halo exchange by ports" : "halo exchange by memory channels", wrong);
}
