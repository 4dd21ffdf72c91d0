/*
 * The C functions that the Fortran module mpix_mscclpp calls (mpix/fortran/mpix_mscclpp.f90). They convert Fortran's
 * handles to C handles, and the addresses of Fortran's MPI_IN_PLACE and MPI_BOTTOM to C's values. The parameters are
 * those of the Fortran interfaces, and `ierror` may be NULL.
 */
#include "mpix/internal.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "mpix/describe.h"
#include "mpix/include/mpix_mscclpp_requests.h"

/* Defines a function and, since no header declares it, its prototype. */
#define FORTRAN(name_, ...)                                                                                            \
    MPIX_MSCCLPP_PUBLIC void mpix_mscclpp_f_##name_(__VA_ARGS__);                                                      \
    void mpix_mscclpp_f_##name_(__VA_ARGS__)

/* The ways in which Fortran compilers spell the name of a symbol. */
#define SPELLINGS 4

/*
 * Returns 1 if a buffer is the address of a symbol, which has one of the names. libmpi contains the symbol under only
 * one of them, which depends on the Fortran compiler with which libmpi was built.
 */
static int is_one_of(const void *buffer, const char *const names[SPELLINGS])
{
    for (int i = 0; i < SPELLINGS; ++i) {
        const void *address = dlsym(RTLD_DEFAULT, names[i]);

        if (address != NULL && address == buffer) {
            return 1;
        }
    }
    return 0;
}

/* Returns a buffer as C passes it: MPI_IN_PLACE and MPI_BOTTOM of Fortran become those of C. */
static void *c_buffer(const void *buffer)
{
    static const char *const in_place[SPELLINGS] = {"mpi_fortran_in_place_", "mpi_fortran_in_place",
                                                    "mpi_fortran_in_place__", "MPI_FORTRAN_IN_PLACE"};
    static const char *const bottom[SPELLINGS] = {"mpi_fortran_bottom_", "mpi_fortran_bottom", "mpi_fortran_bottom__",
                                                  "MPI_FORTRAN_BOTTOM"};

    if (is_one_of(buffer, in_place)) {
        return MPI_IN_PLACE;
    }
    return is_one_of(buffer, bottom) ? MPI_BOTTOM : (void *)(uintptr_t)buffer;
}

/* Stores the code, unless ierror is absent. */
static void set_ierror(int code, int *ierror)
{
    if (ierror != NULL) {
        *ierror = code;
    }
}

/*
 * Sets *blocks_p to the number of entries of an array argument: one for each rank or, in an inter-communicator, for
 * each rank of the remote group. Returns an MPI error code, which has not been reported; *blocks_p is not set after an
 * error.
 */
static int count_blocks(MPI_Comm comm, int *blocks_p)
{
    int is_inter = 0;

    if (comm == MPI_COMM_NULL) {
        return MPI_ERR_COMM;
    }
    (void)MPI_Comm_test_inter(comm, &is_inter);
    return is_inter ? MPI_Comm_remote_size(comm, blocks_p) : MPI_Comm_size(comm, blocks_p);
}

/*
 * Defines both forms of a collective: queued, and as a persistent request. `params_` are the parameters of its Fortran
 * interface, in parentheses, and `args_` are the C arguments, up to the communicator.
 */
#define COLLECTIVE(name_, params_, args_)                                                                              \
    FORTRAN(name_, LIST params_, const int *comm, intptr_t stream, int *ierror)                                        \
    {                                                                                                                  \
        set_ierror(MPIX_Mscclpp_##name_##_enqueue(LIST args_, MPI_Comm_f2c(*comm), (void *)stream), ierror);           \
    }                                                                                                                  \
    FORTRAN(name_##_init, LIST params_, const int *comm, MPIX_Mscclpp_request *request, int *ierror)                   \
    {                                                                                                                  \
        set_ierror(MPIX_Mscclpp_##name_##_init(LIST args_, MPI_Comm_f2c(*comm), request), ierror);                     \
    }
#define LIST(...) __VA_ARGS__

/*
 * Lists that several collectives share. SEND_..., RECV_... and REDUCTION are parameters of the Fortran interfaces;
 * SENT_..., RECEIVED_... and REDUCED are the C arguments made from them. BLOCKS have one count, and PLACES have counts
 * and displacements.
 */
#define SEND_BLOCKS const void *sendbuf, const int *sendcount, const int *sendtype
#define RECV_BLOCKS void *recvbuf, const int *recvcount, const int *recvtype
#define SEND_PLACES(displs_) const void *sendbuf, const int *sendcounts, const int *displs_, const int *sendtype
#define RECV_PLACES(displs_) void *recvbuf, const int *recvcounts, const int *displs_, const int *recvtype
#define SENT_BLOCKS c_buffer(sendbuf), *sendcount, MPI_Type_f2c(*sendtype)
#define RECEIVED_BLOCKS c_buffer(recvbuf), *recvcount, MPI_Type_f2c(*recvtype)
#define SENT_PLACES(displs_) c_buffer(sendbuf), sendcounts, displs_, MPI_Type_f2c(*sendtype)
#define RECEIVED_PLACES(displs_) c_buffer(recvbuf), recvcounts, displs_, MPI_Type_f2c(*recvtype)
#define REDUCTION const void *sendbuf, void *recvbuf, const int *count, const int *datatype, const int *op
#define REDUCED c_buffer(sendbuf), c_buffer(recvbuf), *count, MPI_Type_f2c(*datatype), MPI_Op_f2c(*op)

COLLECTIVE(bcast, (void *buffer, const int *count, const int *datatype, const int *root),
           (c_buffer(buffer), *count, MPI_Type_f2c(*datatype), *root))
COLLECTIVE(allreduce, (REDUCTION), (REDUCED))
COLLECTIVE(reduce, (REDUCTION, const int *root), (REDUCED, *root))
COLLECTIVE(reduce_scatter_block, (REDUCTION), (REDUCED))
COLLECTIVE(reduce_scatter,
           (const void *sendbuf, void *recvbuf, const int *recvcounts, const int *datatype, const int *op),
           (c_buffer(sendbuf), c_buffer(recvbuf), recvcounts, MPI_Type_f2c(*datatype), MPI_Op_f2c(*op)))
COLLECTIVE(scan, (REDUCTION), (REDUCED))
COLLECTIVE(exscan, (REDUCTION), (REDUCED))
COLLECTIVE(allgather, (SEND_BLOCKS, RECV_BLOCKS), (SENT_BLOCKS, RECEIVED_BLOCKS))
COLLECTIVE(allgatherv, (SEND_BLOCKS, RECV_PLACES(displs)), (SENT_BLOCKS, RECEIVED_PLACES(displs)))
COLLECTIVE(gather, (SEND_BLOCKS, RECV_BLOCKS, const int *root), (SENT_BLOCKS, RECEIVED_BLOCKS, *root))
COLLECTIVE(gatherv, (SEND_BLOCKS, RECV_PLACES(displs), const int *root), (SENT_BLOCKS, RECEIVED_PLACES(displs), *root))
COLLECTIVE(scatter, (SEND_BLOCKS, RECV_BLOCKS, const int *root), (SENT_BLOCKS, RECEIVED_BLOCKS, *root))
COLLECTIVE(scatterv, (SEND_PLACES(displs), RECV_BLOCKS, const int *root), (SENT_PLACES(displs), RECEIVED_BLOCKS, *root))
COLLECTIVE(alltoall, (SEND_BLOCKS, RECV_BLOCKS), (SENT_BLOCKS, RECEIVED_BLOCKS))
COLLECTIVE(alltoallv, (SEND_PLACES(sdispls), RECV_PLACES(rdispls)), (SENT_PLACES(sdispls), RECEIVED_PLACES(rdispls)))
COLLECTIVE(neighbor_allgather, (SEND_BLOCKS, RECV_BLOCKS), (SENT_BLOCKS, RECEIVED_BLOCKS))
COLLECTIVE(neighbor_allgatherv, (SEND_BLOCKS, RECV_PLACES(displs)), (SENT_BLOCKS, RECEIVED_PLACES(displs)))
COLLECTIVE(neighbor_alltoall, (SEND_BLOCKS, RECV_BLOCKS), (SENT_BLOCKS, RECEIVED_BLOCKS))
COLLECTIVE(neighbor_alltoallv, (SEND_PLACES(sdispls), RECV_PLACES(rdispls)),
           (SENT_PLACES(sdispls), RECEIVED_PLACES(rdispls)))

FORTRAN(barrier, const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_barrier_enqueue(MPI_Comm_f2c(*comm), (void *)stream), ierror);
}

FORTRAN(barrier_init, const int *comm, MPIX_Mscclpp_request *request, int *ierror)
{
    set_ierror(MPIX_Mscclpp_barrier_init(MPI_Comm_f2c(*comm), request), ierror);
}

/*
 * Returns an array with the C datatypes of `sends` blocks and then of `receives` blocks, which the caller frees. If
 * `sendtypes` is NULL, it is not read, and MPI_BYTE is used for each block. Returns NULL if memory runs out, which has
 * been reported. One additional element is allocated, because malloc may return NULL for a size of 0.
 */
static MPI_Datatype *convert_types(const int *sendtypes, int sends, const int *recvtypes, int receives, MPI_Comm comm)
{
    MPI_Datatype *types = malloc(((size_t)sends + (size_t)receives + 1) * sizeof(MPI_Datatype));

    if (types == NULL) {
        (void)mpix_report(comm, MPI_ERR_NO_MEM);
        return NULL;
    }
    for (int i = 0; i < sends; ++i) {
        types[i] = sendtypes == NULL ? MPI_BYTE : MPI_Type_f2c(sendtypes[i]);
    }
    for (int i = 0; i < receives; ++i) {
        types[sends + i] = MPI_Type_f2c(recvtypes[i]);
    }
    return types;
}

/*
 * Returns an array with the C datatypes of alltoallw, which the caller frees: *blocks_p types of the send side, then
 * *blocks_p types of the receive side. With MPI_IN_PLACE, `sendtypes` is not read. After an error, returns NULL and
 * sets *code_p to the error code, which has been reported.
 */
static MPI_Datatype *make_types(const void *sendbuf, const int *sendtypes, const int *recvtypes, MPI_Comm comm,
                                int *blocks_p, int *code_p)
{
    MPI_Datatype *types;

    *code_p = count_blocks(comm, blocks_p);
    if (*code_p != MPI_SUCCESS) {
        (void)mpix_report(comm, *code_p);
        return NULL;
    }
    types = convert_types(c_buffer(sendbuf) != MPI_IN_PLACE ? sendtypes : NULL, *blocks_p, recvtypes, *blocks_p, comm);
    *code_p = types == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    return types;
}

/*
 * Returns an array with the C datatypes of neighbor_alltoallw, which the caller frees: *outs_p types of the send side,
 * one for each edge out of this rank, then a type of the receive side for each edge into this rank. After an error,
 * returns NULL and sets *code_p to the error code, which has been reported.
 */
static MPI_Datatype *make_edge_types(const int *sendtypes, const int *recvtypes, MPI_Comm comm, int *outs_p,
                                     int *code_p)
{
    int ins = 0;
    MPI_Datatype *types;

    *outs_p = 0;
    *code_p = comm == MPI_COMM_NULL ? MPI_ERR_COMM : mpix_count_edges(comm, outs_p, &ins);
    if (*code_p != MPI_SUCCESS) {
        (void)mpix_report(comm, *code_p);
        return NULL;
    }
    types = convert_types(sendtypes, *outs_p, recvtypes, ins, comm);
    *code_p = types == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    return types;
}

/* In this function and the next three, make_types or make_edge_types has set `code` if `types` is NULL. */
FORTRAN(neighbor_alltoallw, const void *sendbuf, const int *sendcounts, const MPI_Aint *sdispls, const int *sendtypes,
        void *recvbuf, const int *recvcounts, const MPI_Aint *rdispls, const int *recvtypes, const int *comm,
        intptr_t stream, int *ierror)
{
    const MPI_Comm comm_c = MPI_Comm_f2c(*comm);
    int outs, code;
    MPI_Datatype *types = make_edge_types(sendtypes, recvtypes, comm_c, &outs, &code);

    if (types != NULL) {
        code = MPIX_Mscclpp_neighbor_alltoallw_enqueue(c_buffer(sendbuf), sendcounts, sdispls, types, c_buffer(recvbuf),
                                                       recvcounts, rdispls, types + outs, comm_c, (void *)stream);
    }
    free(types);
    set_ierror(code, ierror);
}

/* Frees the array of types at the end, since the request has copied its lists. */
FORTRAN(neighbor_alltoallw_init, const void *sendbuf, const int *sendcounts, const MPI_Aint *sdispls,
        const int *sendtypes, void *recvbuf, const int *recvcounts, const MPI_Aint *rdispls, const int *recvtypes,
        const int *comm, MPIX_Mscclpp_request *request, int *ierror)
{
    const MPI_Comm comm_c = MPI_Comm_f2c(*comm);
    int outs, code;
    MPI_Datatype *types = make_edge_types(sendtypes, recvtypes, comm_c, &outs, &code);

    if (types != NULL) {
        code = MPIX_Mscclpp_neighbor_alltoallw_init(c_buffer(sendbuf), sendcounts, sdispls, types, c_buffer(recvbuf),
                                                    recvcounts, rdispls, types + outs, comm_c, request);
    }
    free(types);
    set_ierror(code, ierror);
}

FORTRAN(alltoallw, const void *sendbuf, const int *sendcounts, const int *sdispls, const int *sendtypes, void *recvbuf,
        const int *recvcounts, const int *rdispls, const int *recvtypes, const int *comm, intptr_t stream, int *ierror)
{
    const MPI_Comm comm_c = MPI_Comm_f2c(*comm);
    int blocks, code;
    MPI_Datatype *types = make_types(sendbuf, sendtypes, recvtypes, comm_c, &blocks, &code);

    if (types != NULL) {
        code = MPIX_Mscclpp_alltoallw_enqueue(c_buffer(sendbuf), sendcounts, sdispls, types, c_buffer(recvbuf),
                                              recvcounts, rdispls, types + blocks, comm_c, (void *)stream);
    }
    free(types);
    set_ierror(code, ierror);
}

/* Frees the array of types at the end, since the request has copied its lists. */
FORTRAN(alltoallw_init, const void *sendbuf, const int *sendcounts, const int *sdispls, const int *sendtypes,
        void *recvbuf, const int *recvcounts, const int *rdispls, const int *recvtypes, const int *comm,
        MPIX_Mscclpp_request *request, int *ierror)
{
    const MPI_Comm comm_c = MPI_Comm_f2c(*comm);
    int blocks, code;
    MPI_Datatype *types = make_types(sendbuf, sendtypes, recvtypes, comm_c, &blocks, &code);

    if (types != NULL) {
        code = MPIX_Mscclpp_alltoallw_init(c_buffer(sendbuf), sendcounts, sdispls, types, c_buffer(recvbuf), recvcounts,
                                           rdispls, types + blocks, comm_c, request);
    }
    free(types);
    set_ierror(code, ierror);
}

FORTRAN(pallreduce_init, const void *sendbuf, void *recvbuf, const int *partitions, const int *count,
        const int *datatype, const int *op, const int *comm, MPIX_Mscclpp_request *request, int *ierror)
{
    set_ierror(MPIX_Mscclpp_pallreduce_init(c_buffer(sendbuf), c_buffer(recvbuf), *partitions, *count,
                                            MPI_Type_f2c(*datatype), MPI_Op_f2c(*op), MPI_Comm_f2c(*comm), request),
               ierror);
}

FORTRAN(psend_init, const void *buf, const int *partitions, const int *count, const int *datatype, const int *dest,
        const int *tag, const int *comm, MPIX_Mscclpp_request *request, int *ierror)
{
    set_ierror(MPIX_Mscclpp_psend_init(buf, *partitions, *count, MPI_Type_f2c(*datatype), *dest, *tag,
                                       MPI_Comm_f2c(*comm), request),
               ierror);
}

FORTRAN(precv_init, void *buf, const int *partitions, const int *count, const int *datatype, const int *source,
        const int *tag, const int *comm, MPIX_Mscclpp_request *request, int *ierror)
{
    set_ierror(MPIX_Mscclpp_precv_init(buf, *partitions, *count, MPI_Type_f2c(*datatype), *source, *tag,
                                       MPI_Comm_f2c(*comm), request),
               ierror);
}

FORTRAN(query, const int *comm, const int *what, int64_t *value, int *ierror)
{
    MPI_Count count = 0;

    set_ierror(MPIX_Mscclpp_query(MPI_Comm_f2c(*comm), *what, &count), ierror);
    *value = (int64_t)count;
}

/* The size of the longest message of an asynchronous error, with its terminating zero. */
#define MESSAGE_SIZE 320

/*
 * Writes the message into `text`, which has `length` characters. A message that is too long is cut. The rest of the
 * text is filled with blanks, as Fortran requires. After an error in the arguments, *code is MPI_SUCCESS and the text
 * is blank.
 */
FORTRAN(get_async_error, const int *comm, int *code, char *text, const int *length, int *ierror)
{
    char message[MESSAGE_SIZE] = ""; /* stays empty if the communicator is refused */
    int failure_code = MPI_SUCCESS, position = 0;

    set_ierror(MPIX_Mscclpp_get_async_error(MPI_Comm_f2c(*comm), &failure_code, message, (int)sizeof(message)), ierror);
    *code = failure_code;
    while (position < *length && message[position] != '\0') {
        text[position] = message[position];
        ++position;
    }
    while (position < *length) {
        text[position++] = ' ';
    }
}
