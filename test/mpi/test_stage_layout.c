/*
 * Staging of layouts that reach far: the columns of a matrix, each received by an operation of its own while the others
 * are under way; what lies between irregular blocks; and data that is far from the pointer that MPI is given.
 */
#include <stdlib.h>

#include "test/mpi/mpi_test.h"

#define ROWS 1500
#define COLUMNS 9

static unsigned value(int rank, int index, int salt)
{
    return (unsigned)mt_mix((uint64_t)rank, (uint64_t)index, (uint64_t)salt);
}

/* Bcasts of single columns, two at once, and single cells here and there: none may write what another received. */
static void columns(void)
{
    enum { CELLS = ROWS * COLUMNS, CALLS = 5 };
    unsigned *matrix = mt_host_alloc(sizeof(int) * CELLS);
    mt_buffer_t grid = mt_buffer_alloc(MT_DEVICE, sizeof(int) * CELLS, 0);
    int *places = mt_host_alloc(sizeof(int) * ROWS);
    MPI_Datatype vector, column, cells;
    uint64_t before = mt_staged(MPI_COMM_WORLD);

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
    MT_CHECK(mt_staged(MPI_COMM_WORLD) - before >= 6 * CALLS, "columns: not staged");
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
        uint64_t before = mt_staged(MPI_COMM_WORLD);
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
        MT_CHECK(mt_staged(MPI_COMM_WORLD) - before >= 2, "equal pointers, turn %d: not staged", turn);
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

int main(int argc, char **argv)
{
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    columns();
    equal_pointers();
    return mt_finish();
}
