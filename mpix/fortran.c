/*
 * What the Fortran module mpix_mscclpp calls (mpix/fortran/mpix_mscclpp.f90). Handles become those of C, and the
 * addresses of Fortran's MPI_IN_PLACE and MPI_BOTTOM become C's values. Arguments are those of the Fortran interfaces,
 * and `ierror` may be NULL.
 */
#include "mpix/internal.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "mpix/include/mpix_mscclpp.h"

/* A function and, since no header declares it, its prototype. */
#define FORTRAN(name_, ...)                                                                                            \
    MPIX_MSCCLPP_PUBLIC void mpix_mscclpp_f_##name_(__VA_ARGS__);                                                      \
    void mpix_mscclpp_f_##name_(__VA_ARGS__)

/* libmpi has one of these symbols, depending on the Fortran compiler that it was built with. */
static int is_one_of(const void *buffer, const char *const names[4])
{
    for (int i = 0; i < 4; ++i) {
        const void *address = dlsym(RTLD_DEFAULT, names[i]);

        if (address != NULL && address == buffer) {
            return 1;
        }
    }
    return 0;
}

static void *buffer_of(void *buffer)
{
    static const char *const in_place[4] = {"mpi_fortran_in_place_", "mpi_fortran_in_place", "mpi_fortran_in_place__",
                                            "MPI_FORTRAN_IN_PLACE"};
    static const char *const bottom[4] = {"mpi_fortran_bottom_", "mpi_fortran_bottom", "mpi_fortran_bottom__",
                                          "MPI_FORTRAN_BOTTOM"};

    return is_one_of(buffer, in_place) ? MPI_IN_PLACE : is_one_of(buffer, bottom) ? MPI_BOTTOM : buffer;
}

static void set_ierror(int code, int *ierror)
{
    if (ierror != NULL) {
        *ierror = code;
    }
}

/* How many types an array has. */
static int size_of(MPI_Comm comm, int *size)
{
    int inter = 0;

    if (comm == MPI_COMM_NULL) {
        return MPI_ERR_COMM;
    }
    (void)MPI_Comm_test_inter(comm, &inter);
    return inter ? MPI_Comm_remote_size(comm, size) : MPI_Comm_size(comm, size);
}

FORTRAN(allreduce, void *sendbuf, void *recvbuf, const int *count, const int *datatype, const int *op, const int *comm,
        intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_allreduce_enqueue(buffer_of(sendbuf), buffer_of(recvbuf), *count, MPI_Type_f2c(*datatype),
                                              MPI_Op_f2c(*op), MPI_Comm_f2c(*comm), (void *)stream),
               ierror);
}

FORTRAN(barrier, const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_barrier_enqueue(MPI_Comm_f2c(*comm), (void *)stream), ierror);
}

FORTRAN(bcast, void *buffer, const int *count, const int *datatype, const int *root, const int *comm, intptr_t stream,
        int *ierror)
{
    set_ierror(MPIX_Mscclpp_bcast_enqueue(buffer_of(buffer), *count, MPI_Type_f2c(*datatype), *root,
                                          MPI_Comm_f2c(*comm), (void *)stream),
               ierror);
}

FORTRAN(reduce, void *sendbuf, void *recvbuf, const int *count, const int *datatype, const int *op, const int *root,
        const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_reduce_enqueue(buffer_of(sendbuf), buffer_of(recvbuf), *count, MPI_Type_f2c(*datatype),
                                           MPI_Op_f2c(*op), *root, MPI_Comm_f2c(*comm), (void *)stream),
               ierror);
}

FORTRAN(allgather, void *sendbuf, const int *sendcount, const int *sendtype, void *recvbuf, const int *recvcount,
        const int *recvtype, const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_allgather_enqueue(buffer_of(sendbuf), *sendcount, MPI_Type_f2c(*sendtype),
                                              buffer_of(recvbuf), *recvcount, MPI_Type_f2c(*recvtype),
                                              MPI_Comm_f2c(*comm), (void *)stream),
               ierror);
}

FORTRAN(allgatherv, void *sendbuf, const int *sendcount, const int *sendtype, void *recvbuf, const int *recvcounts,
        const int *displs, const int *recvtype, const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_allgatherv_enqueue(buffer_of(sendbuf), *sendcount, MPI_Type_f2c(*sendtype),
                                               buffer_of(recvbuf), recvcounts, displs, MPI_Type_f2c(*recvtype),
                                               MPI_Comm_f2c(*comm), (void *)stream),
               ierror);
}

FORTRAN(gather, void *sendbuf, const int *sendcount, const int *sendtype, void *recvbuf, const int *recvcount,
        const int *recvtype, const int *root, const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_gather_enqueue(buffer_of(sendbuf), *sendcount, MPI_Type_f2c(*sendtype), buffer_of(recvbuf),
                                           *recvcount, MPI_Type_f2c(*recvtype), *root, MPI_Comm_f2c(*comm),
                                           (void *)stream),
               ierror);
}

FORTRAN(gatherv, void *sendbuf, const int *sendcount, const int *sendtype, void *recvbuf, const int *recvcounts,
        const int *displs, const int *recvtype, const int *root, const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_gatherv_enqueue(buffer_of(sendbuf), *sendcount, MPI_Type_f2c(*sendtype), buffer_of(recvbuf),
                                            recvcounts, displs, MPI_Type_f2c(*recvtype), *root, MPI_Comm_f2c(*comm),
                                            (void *)stream),
               ierror);
}

FORTRAN(scatter, void *sendbuf, const int *sendcount, const int *sendtype, void *recvbuf, const int *recvcount,
        const int *recvtype, const int *root, const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_scatter_enqueue(buffer_of(sendbuf), *sendcount, MPI_Type_f2c(*sendtype), buffer_of(recvbuf),
                                            *recvcount, MPI_Type_f2c(*recvtype), *root, MPI_Comm_f2c(*comm),
                                            (void *)stream),
               ierror);
}

FORTRAN(scatterv, void *sendbuf, const int *sendcounts, const int *displs, const int *sendtype, void *recvbuf,
        const int *recvcount, const int *recvtype, const int *root, const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_scatterv_enqueue(buffer_of(sendbuf), sendcounts, displs, MPI_Type_f2c(*sendtype),
                                             buffer_of(recvbuf), *recvcount, MPI_Type_f2c(*recvtype), *root,
                                             MPI_Comm_f2c(*comm), (void *)stream),
               ierror);
}

FORTRAN(alltoall, void *sendbuf, const int *sendcount, const int *sendtype, void *recvbuf, const int *recvcount,
        const int *recvtype, const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_alltoall_enqueue(buffer_of(sendbuf), *sendcount, MPI_Type_f2c(*sendtype),
                                             buffer_of(recvbuf), *recvcount, MPI_Type_f2c(*recvtype),
                                             MPI_Comm_f2c(*comm), (void *)stream),
               ierror);
}

FORTRAN(alltoallv, void *sendbuf, const int *sendcounts, const int *sdispls, const int *sendtype, void *recvbuf,
        const int *recvcounts, const int *rdispls, const int *recvtype, const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_alltoallv_enqueue(buffer_of(sendbuf), sendcounts, sdispls, MPI_Type_f2c(*sendtype),
                                              buffer_of(recvbuf), recvcounts, rdispls, MPI_Type_f2c(*recvtype),
                                              MPI_Comm_f2c(*comm), (void *)stream),
               ierror);
}

FORTRAN(alltoallw, void *sendbuf, const int *sendcounts, const int *sdispls, const int *sendtypes, void *recvbuf,
        const int *recvcounts, const int *rdispls, const int *recvtypes, const int *comm, intptr_t stream, int *ierror)
{
    const MPI_Comm comm_c = MPI_Comm_f2c(*comm);
    MPI_Datatype *types;
    int size, code = size_of(comm_c, &size);

    if (code != MPI_SUCCESS) {
        set_ierror(mpix_report(comm_c, code), ierror);
        return;
    }
    types = malloc(2 * (size_t)size * sizeof(MPI_Datatype));
    if (types == NULL) {
        set_ierror(mpix_report(comm_c, MPI_ERR_NO_MEM), ierror);
        return;
    }
    for (int i = 0; i < size; ++i) {
        types[i] =
            sendbuf == buffer_of(sendbuf) ? MPI_Type_f2c(sendtypes[i]) : MPI_BYTE; /* in place they do not count */
        types[size + i] = MPI_Type_f2c(recvtypes[i]);
    }
    code = MPIX_Mscclpp_alltoallw_enqueue(buffer_of(sendbuf), sendcounts, sdispls, types, buffer_of(recvbuf),
                                          recvcounts, rdispls, types + size, comm_c, (void *)stream);
    free(types);
    set_ierror(code, ierror);
}

FORTRAN(reduce_scatter, void *sendbuf, void *recvbuf, const int *recvcounts, const int *datatype, const int *op,
        const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_reduce_scatter_enqueue(buffer_of(sendbuf), buffer_of(recvbuf), recvcounts,
                                                   MPI_Type_f2c(*datatype), MPI_Op_f2c(*op), MPI_Comm_f2c(*comm),
                                                   (void *)stream),
               ierror);
}

FORTRAN(reduce_scatter_block, void *sendbuf, void *recvbuf, const int *recvcount, const int *datatype, const int *op,
        const int *comm, intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_reduce_scatter_block_enqueue(buffer_of(sendbuf), buffer_of(recvbuf), *recvcount,
                                                         MPI_Type_f2c(*datatype), MPI_Op_f2c(*op), MPI_Comm_f2c(*comm),
                                                         (void *)stream),
               ierror);
}

FORTRAN(scan, void *sendbuf, void *recvbuf, const int *count, const int *datatype, const int *op, const int *comm,
        intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_scan_enqueue(buffer_of(sendbuf), buffer_of(recvbuf), *count, MPI_Type_f2c(*datatype),
                                         MPI_Op_f2c(*op), MPI_Comm_f2c(*comm), (void *)stream),
               ierror);
}

FORTRAN(exscan, void *sendbuf, void *recvbuf, const int *count, const int *datatype, const int *op, const int *comm,
        intptr_t stream, int *ierror)
{
    set_ierror(MPIX_Mscclpp_exscan_enqueue(buffer_of(sendbuf), buffer_of(recvbuf), *count, MPI_Type_f2c(*datatype),
                                           MPI_Op_f2c(*op), MPI_Comm_f2c(*comm), (void *)stream),
               ierror);
}
FORTRAN(query, const int *comm, const int *what, int64_t *value, int *ierror)
{
    MPI_Count found = 0;

    set_ierror(MPIX_Mscclpp_query(MPI_Comm_f2c(*comm), *what, &found), ierror);
    *value = (int64_t)found;
}

/* `text` has `length` characters and is filled up with blanks. */
FORTRAN(get_async_error, const int *comm, int *code, char *text, const int *length, int *ierror)
{
    char found[320];
    int which = MPI_SUCCESS, at = 0;

    set_ierror(MPIX_Mscclpp_get_async_error(MPI_Comm_f2c(*comm), &which, found, (int)sizeof(found)), ierror);
    *code = which;
    while (at < *length && found[at] != '\0') {
        text[at] = found[at];
        ++at;
    }
    while (at < *length) {
        text[at++] = ' ';
    }
}
