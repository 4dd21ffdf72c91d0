/*
 * Staging of layouts that reach far: the columns of a matrix, each received by an operation of its own while the others
 * are under way; what lies between irregular blocks; data that is far from the pointer that MPI is given; and arguments
 * that reach from one allocation into another. And the transpose of a matrix, also by a type that has no holes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test/mpi/mpi_test.h"

#define ROWS 1500
#define COLUMNS 9

static unsigned value(int rank, int index, int salt)
{
    return (unsigned)mt_mix((uint64_t)rank, (uint64_t)index, (uint64_t)salt);
}

/* Calls that this component has served, by kernels or staged. */
static uint64_t taken(MPI_Comm comm)
{
    return mt_staged(comm) + (mt_parameter_is("algorithm", "stage") ? 0 : mt_served(comm));
}

/* Bcasts of single columns, two at once, and single cells here and there: none may write what another received. */
static void columns(void)
{
    enum { CELLS = ROWS * COLUMNS, CALLS = 5 };
    unsigned *matrix = mt_host_alloc(sizeof(int) * CELLS);
    mt_buffer_t grid = mt_buffer_alloc(MT_DEVICE, sizeof(int) * CELLS, 0);
    int *places = mt_host_alloc(sizeof(int) * ROWS);
    MPI_Datatype vector, column, cells;
    uint64_t before = taken(MPI_COMM_WORLD);

    for (int row = 0; row < ROWS; ++row) {
        places[row] = row * COLUMNS + 6 + (int)(mt_mix((uint64_t)row, 1, 2) % 2);
    }
    MT_MPI(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &vector));
    MT_MPI(MPI_Type_create_resized(vector, 0, sizeof(int), &column));
    MT_MPI(MPI_Type_create_indexed_block(ROWS, 1, places, MPI_INT, &cells));
    MT_MPI(MPI_Type_commit(&column));
    MT_MPI(MPI_Type_commit(&cells));
    for (int turn = 0; turn < 6; ++turn) {
        /* Of columns 0 to 5; -1 is the irregular cells, in columns 6 and 7. Column 8 is the application's own. */
        static const int first[CALLS] = {0, 1, 3, 4, -1}, width[CALLS] = {1, 2, 1, 2, 1};
        MPI_Request requests[CALLS];
        int roots[CALLS];

        for (int i = 0; i < CELLS; ++i) {
            matrix[i] = value(mt_rank, i, turn);
        }
        mt_buffer_put(&grid, matrix, sizeof(int) * CELLS);
        for (int call = 0; call < CALLS; ++call) {
            char *at = grid.data + (first[call] > 0 ? sizeof(int) * (size_t)first[call] : 0);
            roots[call] = (call + turn) % mt_size;
            MT_MPI(MPI_Ibcast(at, width[call], first[call] < 0 ? cells : column, roots[call], MPI_COMM_WORLD,
                              &requests[call]));
        }
        for (int call = 0; call < CALLS && turn % 2; ++call) {
            MT_MPI(MPI_Wait(&requests[(call + turn) % CALLS], MPI_STATUS_IGNORE));
        }
        MT_MPI(MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE));
        mt_buffer_get(&grid, matrix, sizeof(int) * CELLS);
        for (int i = 0; i < CELLS; ++i) {
            int at = i % COLUMNS, owner = mt_rank;
            for (int call = 0; call < CALLS; ++call) {
                bool received =
                    first[call] < 0 ? i == places[i / COLUMNS] : at >= first[call] && at < first[call] + width[call];
                owner = received ? roots[call] : owner;
            }
            MT_CHECK(matrix[i] == value(owner, i, turn), "columns, turn %d: row %d, column %d is wrong", turn,
                     i / COLUMNS, at);
        }
    }
    MT_CHECK(taken(MPI_COMM_WORLD) - before >= 6 * CALLS, "columns: neither served nor staged");
    MT_MPI(MPI_Type_free(&vector));
    MT_MPI(MPI_Type_free(&column));
    MT_MPI(MPI_Type_free(&cells));
    mt_buffer_free(&grid, "the matrix");
    free(places);
    free(matrix);
}

/* Where the operands of the last call of remember_operands were. */
static char *operands[2];

static void remember_operands(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)length;
    (void)type;
    operands[0] = in;
    operands[1] = inout;
}

/* The place of data in its copy, from the start of the pinned memory. */
static intptr_t place(const mt_buffer_t *buffer)
{
    return (intptr_t)((uintptr_t)buffer->data % 64);
}

/*
 * The copies of two buffers lie where they like, and so could be as far from each other as the data of one call is from
 * its pointers. An operation of the application's own tells where they were last; they are used again.
 */
static void equal_pointers(void)
{
    enum { INTS = 20, TURNS = 8 };
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, sizeof(int) * INTS, 0);
    mt_buffer_t recv = mt_buffer_alloc(MT_DEVICE, sizeof(int) * INTS * (size_t)mt_size, 0);
    unsigned *host = mt_host_alloc(sizeof(int) * INTS * (size_t)mt_size);
    MPI_Op op;

    MT_MPI(MPI_Op_create(remember_operands, 1, &op));
    for (int turn = 0; turn < TURNS; ++turn) {
        MPI_Datatype data, element;
        MPI_Request request;
        int length = INTS;
        uint64_t before = taken(MPI_COMM_WORLD);
        intptr_t blocks[2];
        MPI_Aint distance;

        for (int i = 0; i < INTS; ++i) {
            host[i] = value(mt_rank, i, turn);
        }
        mt_buffer_put(&send, host, sizeof(int) * INTS);
        mt_buffer_set(&recv, 0);
        MT_MPI(MPI_Reduce_local(send.data, recv.data, INTS, MPI_INT, op));
        blocks[0] = (intptr_t)operands[turn % 2] - place(turn % 2 ? &recv : &send);
        blocks[1] = (intptr_t)operands[1 - turn % 2] - place(turn % 2 ? &send : &recv);
        distance = (MPI_Aint)(blocks[1] + place(&recv) - blocks[0] - place(&send));

        MT_MPI(MPI_Type_create_hindexed(1, &length, &distance, MPI_INT, &data));
        MT_MPI(MPI_Type_create_resized(data, 0, sizeof(int) * INTS, &element));
        MT_MPI(MPI_Type_commit(&element));
        MT_MPI(MPI_Iallgather(send.data, INTS, MPI_INT, (void *)((intptr_t)recv.data - distance), 1, element,
                              MPI_COMM_WORLD, &request));
        MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MT_MPI(MPI_Type_free(&data));
        MT_MPI(MPI_Type_free(&element));
        MT_CHECK(taken(MPI_COMM_WORLD) - before >= 2, "equal pointers, turn %d: neither served nor staged", turn);
        mt_buffer_get(&recv, host, sizeof(int) * INTS * (size_t)mt_size);
        for (int i = 0; i < INTS * mt_size; ++i) {
            MT_CHECK(host[i] == value(i / INTS, i % INTS, turn), "equal pointers, turn %d: integer %d is wrong", turn,
                     i);
        }
    }
    MT_MPI(MPI_Op_free(&op));
    mt_buffer_free(&send, "the send buffer");
    mt_buffer_free(&recv, "the receive buffer");
    free(host);
}

#define PART_INTS 1024

/* Two allocations of device memory. On the twin nothing can be touched between them, and they are `distance` apart. */
typedef struct {
    char *reserved; /* NULL on a GPU */
    size_t distance;
    mt_buffer_t part[2];
} apart_t;

static apart_t apart_alloc(size_t distance)
{
    const size_t size = sizeof(int) * PART_INTS;
    apart_t apart = {.distance = distance};
    mt_buffer_t between;

    if (!mt_twin) {
        apart.part[0] = mt_buffer_alloc(MT_DEVICE, size, 0);
        between = mt_buffer_alloc(MT_DEVICE, (size_t)4 << 20, 0);
        apart.part[1] = mt_buffer_alloc(MT_DEVICE, size, 0);
        mt_buffer_free(&between, "a buffer that nobody uses");
        return apart;
    }
    apart.reserved = mmap(NULL, distance + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int i = 0; i < 2 && MAP_FAILED != apart.reserved; ++i) {
        char *at = mmap(apart.reserved + (size_t)i * distance, size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        apart.part[i] = (mt_buffer_t){.kind = MT_DEVICE, .data = at, .size = size};
    }
    if (MAP_FAILED == apart.reserved || MAP_FAILED == apart.part[0].data || MAP_FAILED == apart.part[1].data) {
        mt_fail(__FILE__, __LINE__, "no address space for a test");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return apart;
}

static void apart_free(apart_t *apart)
{
    if (apart->reserved != NULL) {
        munmap(apart->reserved, apart->distance + sizeof(int) * PART_INTS);
        return;
    }
    mt_buffer_free(&apart->part[0], "the first part");
    mt_buffer_free(&apart->part[1], "the second part");
}

static void part_put(mt_buffer_t *part, int rank, int salt)
{
    unsigned host[PART_INTS];

    for (int i = 0; i < PART_INTS; ++i) {
        host[i] = value(rank, i, salt);
    }
    mt_buffer_put(part, host, sizeof(host));
}

/* Every other integer of one rank, all others of another. */
static void part_check(const mt_buffer_t *part, int even, int odd, int salt, const char *what)
{
    unsigned host[PART_INTS];

    mt_buffer_get(part, host, sizeof(host));
    for (int i = 0; i < PART_INTS; ++i) {
        MT_CHECK(host[i] == value(i % 2 ? odd : even, i, salt), "%s: integer %d is wrong", what, i);
    }
}

/* Every other integer of each of two buffers, or all. */
static MPI_Datatype type_of_two(const mt_buffer_t *first, const mt_buffer_t *second, const void *from, bool all)
{
    MPI_Aint at[2] = {(MPI_Aint)first->data - (MPI_Aint)from, (MPI_Aint)second->data - (MPI_Aint)from};
    int lengths[2] = {1, 1};
    MPI_Datatype part, type;

    MT_MPI(MPI_Type_vector(all ? PART_INTS : PART_INTS / 2, 1, all ? 1 : 2, MPI_INT, &part));
    MT_MPI(MPI_Type_create_hindexed(2, lengths, at, part, &type));
    MT_MPI(MPI_Type_commit(&type));
    MT_MPI(MPI_Type_free(&part));
    return type;
}

/* One element that lies in two buffers: absolute, or counted from the first. */
static void bcast_two(mt_buffer_t *first, mt_buffer_t *second, bool absolute, const char *what)
{
    char *from = absolute ? MPI_BOTTOM : first->data;
    MPI_Datatype type = type_of_two(first, second, from, false);

    for (int root = 0; root < mt_size; ++root) {
        uint64_t before = taken(MPI_COMM_WORLD);

        part_put(first, mt_rank, 2 * root);
        part_put(second, mt_rank, 2 * root + 1);
        if (root % 2) {
            MPI_Request request;
            MT_MPI(MPI_Ibcast(from, 1, type, root, MPI_COMM_WORLD, &request));
            MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            MT_MPI(MPI_Bcast(from, 1, type, root, MPI_COMM_WORLD));
        }
        MT_CHECK(taken(MPI_COMM_WORLD) > before, "%s: not taken from the component before", what);
        part_check(first, root, mt_rank, 2 * root, what);
        part_check(second, root, mt_rank, 2 * root + 1, what);
    }
    MT_MPI(MPI_Type_free(&type));
}

/* Two operations at once, of one element each that lies in two buffers as runs of one length. */
static void bcast_pairs(mt_buffer_t *first[2], mt_buffer_t *second[2], const char *what)
{
    MPI_Request requests[2];
    MPI_Datatype types[2];

    for (int i = 0; i < 2; ++i) {
        part_put(first[i], mt_rank, 2 * i);
        part_put(second[i], mt_rank, 2 * i + 1);
        types[i] = type_of_two(first[i], second[i], MPI_BOTTOM, true);
        MT_MPI(MPI_Ibcast(MPI_BOTTOM, 1, types[i], i, MPI_COMM_WORLD, &requests[i]));
    }
    MT_MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 2; ++i) {
        part_check(first[i], i, i, 2 * i, what);
        part_check(second[i], i, i, 2 * i + 1, what);
        MT_MPI(MPI_Type_free(&types[i]));
    }
}

/* To the next rank and to itself, by addresses. */
static void neighbors_two(mt_buffer_t *send[2], mt_buffer_t *recv[2], const char *what)
{
    int previous = (mt_rank + mt_size - 1) % mt_size, next = (mt_rank + 1) % mt_size;
    int sources[2] = {previous, mt_rank}, destinations[2] = {next, mt_rank};
    int counts[2] = {PART_INTS, PART_INTS};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Aint from[2] = {(MPI_Aint)send[0]->data, (MPI_Aint)send[1]->data};
    MPI_Aint to[2] = {(MPI_Aint)recv[0]->data, (MPI_Aint)recv[1]->data};
    uint64_t before;
    MPI_Comm comm;

    MT_MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 2, destinations, MPI_UNWEIGHTED,
                                          MPI_INFO_NULL, 0, &comm));
    for (int turn = 0; turn < 2; ++turn) {
        before = taken(comm);
        for (int i = 0; i < 2; ++i) {
            part_put(send[i], mt_rank, 10 * turn + i);
            mt_buffer_set(recv[i], 0);
        }
        if (turn > 0) {
            MPI_Request request;
            MT_MPI(MPI_Ineighbor_alltoallw(MPI_BOTTOM, counts, from, types, MPI_BOTTOM, counts, to, types, comm,
                                           &request));
            MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            MT_MPI(MPI_Neighbor_alltoallw(MPI_BOTTOM, counts, from, types, MPI_BOTTOM, counts, to, types, comm));
        }
        MT_CHECK(taken(comm) > before, "%s: not taken from the component before", what);
        part_check(recv[0], previous, previous, 10 * turn, what);
        part_check(recv[1], mt_rank, mt_rank, 10 * turn + 1, what);
    }
    MT_MPI(MPI_Comm_free(&comm));
}

/* Two allocations of device memory in one argument. */
static void several_allocations(size_t distance)
{
    apart_t send = apart_alloc(distance), recv = apart_alloc(distance);
    mt_buffer_t *from[2] = {&send.part[0], &send.part[1]}, *to[2] = {&recv.part[1], &recv.part[0]};

    bcast_two(&recv.part[0], &recv.part[1], true, "two allocations, absolute");
    bcast_two(&recv.part[1], &recv.part[0], false, "two allocations, relative");
    neighbors_two(from, to, "two allocations as blocks");
    apart_free(&send);
    apart_free(&recv);
}

/*
 * Host memory, then device memory, and the other way round. What is large malloc maps, near the device's memory; the
 * heap is a third of the address space away, which has no room for two copies of that.
 */
static void both_kinds(size_t on_host)
{
    const size_t size = sizeof(int) * PART_INTS;
    mt_buffer_t host[2] = {mt_buffer_alloc(MT_HOST, on_host, 0), mt_buffer_alloc(MT_HOST, on_host, 0)};
    mt_buffer_t device[2] = {mt_buffer_alloc(MT_DEVICE, size, 0), mt_buffer_alloc(MT_DEVICE, size, 0)};
    mt_buffer_t *from[2] = {&host[0], &device[0]}, *to[2] = {&host[1], &device[1]};
    mt_buffer_t *hosts[2] = {&host[0], &host[1]}, *devices[2] = {&device[0], &device[1]};

    bcast_two(&host[0], &device[0], true, "host and device memory, absolute");
    bcast_two(&device[0], &host[0], true, "device and host memory, absolute");
    bcast_two(&host[0], &device[0], false, "host and device memory, relative");
    neighbors_two(from, to, "host and device memory as blocks");
    bcast_pairs(hosts, devices, "host and device memory, two at once");
    for (int i = 0; i < 2; ++i) {
        mt_buffer_free(&host[i], "host memory");
        mt_buffer_free(&device[i], "device memory");
    }
}

/* Half of a tebibyte more than is used now: the space between parts that lie further apart cannot be had. */
static void limit_address_space(void)
{
    struct rlimit limit;
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    MT_CHECK(file != NULL && fscanf(file, "%llu", &pages) == 1, "no /proc/self/statm");
    if (file != NULL) {
        fclose(file);
    }
    MT_CHECK(getrlimit(RLIMIT_AS, &limit) == 0, "getrlimit");
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)1 << 39);
    MT_CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
}

/*
 * Blocks of columns to rows, as the transpose of a distributed matrix has it. The first call of a communicator makes
 * its scratch grow, which may change who serves blocks of that size.
 */
static void transpose(void)
{
    enum { HEIGHT = 300, WIDTH = 50, BLOCK = HEIGHT * WIDTH };
    const size_t size = sizeof(int) * BLOCK * (size_t)mt_size;
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, size, 0), recv = mt_buffer_alloc(MT_DEVICE, size, 0);
    unsigned *host = mt_host_alloc(size);
    int *counts = mt_host_alloc(sizeof(int) * (size_t)mt_size), *to = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    int *from = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    MPI_Datatype *columns_of = mt_host_alloc(sizeof(MPI_Datatype) * (size_t)mt_size);
    MPI_Datatype *rows_of = mt_host_alloc(sizeof(MPI_Datatype) * (size_t)mt_size);
    MPI_Datatype column_block, row_block;
    MPI_Comm comm;

    MT_MPI(MPI_Type_vector(HEIGHT, WIDTH, WIDTH * mt_size, MPI_INT, &column_block));
    MT_MPI(MPI_Type_contiguous(BLOCK, MPI_INT, &row_block));
    MT_MPI(MPI_Type_commit(&column_block));
    MT_MPI(MPI_Type_commit(&row_block));
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int i = 0; i < mt_size; ++i) {
        counts[i] = 1;
        from[i] = (int)sizeof(int) * WIDTH * i;
        to[i] = (int)sizeof(int) * BLOCK * i;
        columns_of[i] = column_block;
        rows_of[i] = row_block;
    }
    for (int turn = 0; turn < 2; ++turn) {
        uint64_t before = taken(comm);

        for (int i = 0; i < BLOCK * mt_size; ++i) {
            host[i] = value(mt_rank, i, turn);
        }
        mt_buffer_put(&send, host, size);
        mt_buffer_set(&recv, 0);
        MT_MPI(MPI_Alltoallw(send.data, counts, from, columns_of, recv.data, counts, to, rows_of, comm));
        MT_CHECK(taken(comm) > before, "transpose: not taken from the component before");
        mt_buffer_get(&recv, host, size);
        for (int i = 0; i < BLOCK * mt_size; ++i) {
            int cell = i % BLOCK, row = cell / WIDTH, column = mt_rank * WIDTH + cell % WIDTH;
            MT_CHECK(host[i] == value(i / BLOCK, row * WIDTH * mt_size + column, turn),
                     "transpose, turn %d: integer %d is wrong", turn, i);
        }
    }
    MT_MPI(MPI_Comm_free(&comm));
    MT_MPI(MPI_Type_free(&column_block));
    MT_MPI(MPI_Type_free(&row_block));
    mt_buffer_free(&send, "the send buffer");
    mt_buffer_free(&recv, "the receive buffer");
    free(host);
    free(counts);
    free(from);
    free(to);
    free(columns_of);
    free(rows_of);
}

/*
 * A type that names all cells of a matrix, column by column: it has no holes, but its data are in another order than
 * their addresses. The root sends rows, and all others receive them as columns; then the other way round.
 */
static void reordered(void)
{
    enum { SIDE = 30, CELLS = SIDE * SIDE };
    const size_t size = sizeof(int) * CELLS;
    unsigned *host = mt_host_alloc(size);
    mt_buffer_t matrix = mt_buffer_alloc(MT_DEVICE, size, 0);
    MPI_Datatype cells, column, columns_type;

    MT_MPI(MPI_Type_vector(SIDE, 1, SIDE, MPI_INT, &cells));
    MT_MPI(MPI_Type_create_resized(cells, 0, sizeof(int), &column));
    MT_MPI(MPI_Type_contiguous(SIDE, column, &columns_type));
    MT_MPI(MPI_Type_commit(&columns_type));
    for (int turn = 0; turn < 2; ++turn) {
        const bool is_by_columns = (0 == mt_rank) == (1 == turn);

        for (int i = 0; i < CELLS; ++i) {
            host[i] = value(mt_rank, i, turn);
        }
        mt_buffer_put(&matrix, host, size);
        MT_MPI(MPI_Bcast(matrix.data, is_by_columns ? 1 : CELLS, is_by_columns ? columns_type : MPI_INT, 0,
                         MPI_COMM_WORLD));
        mt_buffer_get(&matrix, host, size);
        for (int i = 0; i < CELLS; ++i) {
            const int from = 0 == mt_rank ? i : i % SIDE * SIDE + i / SIDE;

            MT_CHECK(host[i] == value(0, from, turn), "reordered, turn %d: integer %d is wrong", turn, i);
        }
    }
    MT_MPI(MPI_Type_free(&columns_type));
    MT_MPI(MPI_Type_free(&column));
    MT_MPI(MPI_Type_free(&cells));
    mt_buffer_free(&matrix, "the matrix");
    free(host);
}

int main(int argc, char **argv)
{
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    columns();
    equal_pointers();
    transpose();
    reordered();
    several_allocations((size_t)1 << 20);
    several_allocations((size_t)1 << 40);
    both_kinds((size_t)1 << 20);
    limit_address_space();
    both_kinds(sizeof(int) * PART_INTS);
    return mt_finish();
}
