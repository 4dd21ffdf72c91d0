! MPI's collectives in the order of a GPU stream, for Fortran. Compile this file with the program's own compiler, since
! no compiler reads the modules of another one, and link with the library:
!
!     mpifort $(pkg-config --variable=fortran mpix_mscclpp) program.f90 $(pkg-config --libs mpix_mscclpp)
!
! The subroutines are those of mpix_mscclpp.h and mpix_mscclpp_requests.h, which say what they do, with MPI's arguments
! in MPI's order, the stream or the request, and an optional ierror. A request is an integer of kind c_intptr_t.
! Handles are integers, those of the module mpi or of mpif.h; with the module mpi_f08 pass comm%mpi_val,
! MPI_SUM%mpi_val and so on. Integers are of C's kind, which is the default kind unless the compiler was told
! otherwise. `stream` is the address of a cudaStream_t (CUDA Fortran's streams are such integers), 0 for the default
! stream, or a stream of the host twin.
!
! A buffer is any contiguous array, or one element. It must not be a section with gaps: the compiler would pass a copy,
! which is gone when the work begins. Give variables that are buffers the attribute `asynchronous`, so that the
! compiler keeps their accesses behind the synchronisation of the stream.
module mpix_mscclpp
    use, intrinsic :: iso_c_binding, only: c_char, c_funptr, c_int, c_int64_t, c_intptr_t, c_ptr, &
        c_size_t
    implicit none
    private :: c_char, c_funptr, c_int, c_int64_t, c_intptr_t, c_ptr, c_size_t
    public

    ! Error classes, and what MPIX_Mscclpp_query tells.
    integer(c_int), parameter :: MPIX_MSCCLPP_ERR_TIMEOUT = 1
    integer(c_int), parameter :: MPIX_MSCCLPP_ERR_PEER = 2
    integer(c_int), parameter :: MPIX_MSCCLPP_ERR_BUSY = 3
    integer(c_int), parameter :: MPIX_MSCCLPP_ERR_CAPTURE = 4
    integer(c_int), parameter :: MPIX_MSCCLPP_QUERY_QUEUED = 1
    integer(c_int), parameter :: MPIX_MSCCLPP_QUERY_WAITED = 2

    interface
        subroutine MPIX_Mscclpp_allreduce_enqueue(sendbuf, recvbuf, count, datatype, op, comm, &
                stream, ierror) &
                bind(c, name="mpix_mscclpp_f_allreduce")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: count, datatype, op, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_barrier_enqueue(comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_barrier")
            import :: c_int, c_intptr_t
            integer(c_int), intent(in) :: comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_bcast_enqueue(buffer, count, datatype, root, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_bcast")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: buffer
            !dir$ ignore_tkr buffer
            !dec$ attributes no_arg_check :: buffer
            type(*), dimension(*), asynchronous :: buffer
            integer(c_int), intent(in) :: count, datatype, root, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_reduce_enqueue(sendbuf, recvbuf, count, datatype, op, root, comm, &
                stream, ierror) &
                bind(c, name="mpix_mscclpp_f_reduce")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: count, datatype, op, root, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_allgather_enqueue(sendbuf, sendcount, sendtype, recvbuf, recvcount, &
                recvtype, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_allgather")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_allgatherv_enqueue(sendbuf, sendcount, sendtype, recvbuf, &
                recvcounts, displs, recvtype, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_allgatherv")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvtype, comm
            integer(c_int), dimension(*), intent(in) :: recvcounts, displs
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_gather_enqueue(sendbuf, sendcount, sendtype, recvbuf, recvcount, &
                recvtype, root, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_gather")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, root, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_gatherv_enqueue(sendbuf, sendcount, sendtype, recvbuf, recvcounts, &
                displs, recvtype, root, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_gatherv")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvtype, root, comm
            integer(c_int), dimension(*), intent(in) :: recvcounts, displs
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_scatter_enqueue(sendbuf, sendcount, sendtype, recvbuf, recvcount, &
                recvtype, root, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_scatter")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, root, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_scatterv_enqueue(sendbuf, sendcounts, displs, sendtype, recvbuf, &
                recvcount, recvtype, root, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_scatterv")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendtype, recvcount, recvtype, root, comm
            integer(c_int), dimension(*), intent(in) :: sendcounts, displs
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_alltoall_enqueue(sendbuf, sendcount, sendtype, recvbuf, recvcount, &
                recvtype, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_alltoall")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_alltoallv_enqueue(sendbuf, sendcounts, sdispls, sendtype, recvbuf, &
                recvcounts, rdispls, recvtype, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_alltoallv")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendtype, recvtype, comm
            integer(c_int), dimension(*), intent(in) :: sendcounts, sdispls, recvcounts, rdispls
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_alltoallw_enqueue(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, &
                recvcounts, rdispls, recvtypes, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_alltoallw")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: comm
            integer(c_int), dimension(*), intent(in) :: sendcounts, sdispls, sendtypes, recvcounts, &
                rdispls, recvtypes
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_neighbor_allgather_enqueue(sendbuf, sendcount, sendtype, recvbuf, &
                recvcount, recvtype, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_neighbor_allgather")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_neighbor_allgatherv_enqueue(sendbuf, sendcount, sendtype, recvbuf, &
                recvcounts, displs, recvtype, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_neighbor_allgatherv")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvtype, comm
            integer(c_int), dimension(*), intent(in) :: recvcounts, displs
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_neighbor_alltoall_enqueue(sendbuf, sendcount, sendtype, recvbuf, &
                recvcount, recvtype, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_neighbor_alltoall")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_neighbor_alltoallv_enqueue(sendbuf, sendcounts, sdispls, sendtype, &
                recvbuf, recvcounts, rdispls, recvtype, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_neighbor_alltoallv")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendtype, recvtype, comm
            integer(c_int), dimension(*), intent(in) :: sendcounts, sdispls, recvcounts, rdispls
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_neighbor_alltoallw_enqueue(sendbuf, sendcounts, sdispls, sendtypes, &
                recvbuf, recvcounts, rdispls, recvtypes, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_neighbor_alltoallw")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: comm
            integer(c_int), dimension(*), intent(in) :: sendcounts, sendtypes, recvcounts, recvtypes
            integer(c_intptr_t), dimension(*), intent(in) :: sdispls, rdispls ! MPI_ADDRESS_KIND
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_reduce_scatter_enqueue(sendbuf, recvbuf, recvcounts, datatype, op, &
                comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_reduce_scatter")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: datatype, op, comm
            integer(c_int), dimension(*), intent(in) :: recvcounts
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_reduce_scatter_block_enqueue(sendbuf, recvbuf, recvcount, datatype, &
                op, comm, stream, ierror) &
                bind(c, name="mpix_mscclpp_f_reduce_scatter_block")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: recvcount, datatype, op, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_scan_enqueue(sendbuf, recvbuf, count, datatype, op, comm, stream, &
                ierror) &
                bind(c, name="mpix_mscclpp_f_scan")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: count, datatype, op, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_exscan_enqueue(sendbuf, recvbuf, count, datatype, op, comm, stream, &
                ierror) &
                bind(c, name="mpix_mscclpp_f_exscan")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: count, datatype, op, comm
            integer(c_intptr_t), value :: stream
            integer(c_int), intent(out), optional :: ierror
        end subroutine
        ! Persistent requests: MPI's arguments, and a request in place of the stream.
        subroutine MPIX_Mscclpp_allreduce_init(sendbuf, recvbuf, count, datatype, op, comm, &
                request, ierror) &
                bind(c, name="mpix_mscclpp_f_allreduce_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: count, datatype, op, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_barrier_init(comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_barrier_init")
            import :: c_int, c_intptr_t
            integer(c_int), intent(in) :: comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_bcast_init(buffer, count, datatype, root, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_bcast_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: buffer
            !dir$ ignore_tkr buffer
            !dec$ attributes no_arg_check :: buffer
            type(*), dimension(*), asynchronous :: buffer
            integer(c_int), intent(in) :: count, datatype, root, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_reduce_init(sendbuf, recvbuf, count, datatype, op, root, comm, &
                request, ierror) &
                bind(c, name="mpix_mscclpp_f_reduce_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: count, datatype, op, root, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_allgather_init(sendbuf, sendcount, sendtype, recvbuf, recvcount, &
                recvtype, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_allgather_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_allgatherv_init(sendbuf, sendcount, sendtype, recvbuf, recvcounts, &
                displs, recvtype, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_allgatherv_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvtype, comm
            integer(c_int), dimension(*), intent(in) :: recvcounts, displs
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_gather_init(sendbuf, sendcount, sendtype, recvbuf, recvcount, &
                recvtype, root, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_gather_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, root, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_gatherv_init(sendbuf, sendcount, sendtype, recvbuf, recvcounts, &
                displs, recvtype, root, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_gatherv_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvtype, root, comm
            integer(c_int), dimension(*), intent(in) :: recvcounts, displs
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_scatter_init(sendbuf, sendcount, sendtype, recvbuf, recvcount, &
                recvtype, root, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_scatter_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, root, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_scatterv_init(sendbuf, sendcounts, displs, sendtype, recvbuf, &
                recvcount, recvtype, root, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_scatterv_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendtype, recvcount, recvtype, root, comm
            integer(c_int), dimension(*), intent(in) :: sendcounts, displs
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_alltoall_init(sendbuf, sendcount, sendtype, recvbuf, recvcount, &
                recvtype, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_alltoall_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_alltoallv_init(sendbuf, sendcounts, sdispls, sendtype, recvbuf, &
                recvcounts, rdispls, recvtype, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_alltoallv_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendtype, recvtype, comm
            integer(c_int), dimension(*), intent(in) :: sendcounts, sdispls, recvcounts, rdispls
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_alltoallw_init(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, &
                recvcounts, rdispls, recvtypes, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_alltoallw_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: comm
            integer(c_int), dimension(*), intent(in) :: sendcounts, sdispls, sendtypes, recvcounts, &
                rdispls, recvtypes
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_neighbor_allgather_init(sendbuf, sendcount, sendtype, recvbuf, &
                recvcount, recvtype, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_neighbor_allgather_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_neighbor_allgatherv_init(sendbuf, sendcount, sendtype, recvbuf, &
                recvcounts, displs, recvtype, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_neighbor_allgatherv_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvtype, comm
            integer(c_int), dimension(*), intent(in) :: recvcounts, displs
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_neighbor_alltoall_init(sendbuf, sendcount, sendtype, recvbuf, &
                recvcount, recvtype, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_neighbor_alltoall_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendcount, sendtype, recvcount, recvtype, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_neighbor_alltoallv_init(sendbuf, sendcounts, sdispls, sendtype, &
                recvbuf, recvcounts, rdispls, recvtype, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_neighbor_alltoallv_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: sendtype, recvtype, comm
            integer(c_int), dimension(*), intent(in) :: sendcounts, sdispls, recvcounts, rdispls
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_neighbor_alltoallw_init(sendbuf, sendcounts, sdispls, sendtypes, &
                recvbuf, recvcounts, rdispls, recvtypes, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_neighbor_alltoallw_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: comm
            integer(c_int), dimension(*), intent(in) :: sendcounts, sendtypes, recvcounts, recvtypes
            integer(c_intptr_t), dimension(*), intent(in) :: sdispls, rdispls ! MPI_ADDRESS_KIND
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_reduce_scatter_init(sendbuf, recvbuf, recvcounts, datatype, op, &
                comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_reduce_scatter_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: datatype, op, comm
            integer(c_int), dimension(*), intent(in) :: recvcounts
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_reduce_scatter_block_init(sendbuf, recvbuf, recvcount, datatype, &
                op, comm, request, ierror) &
                bind(c, name="mpix_mscclpp_f_reduce_scatter_block_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: recvcount, datatype, op, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_scan_init(sendbuf, recvbuf, count, datatype, op, comm, request, &
                ierror) &
                bind(c, name="mpix_mscclpp_f_scan_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: count, datatype, op, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_exscan_init(sendbuf, recvbuf, count, datatype, op, comm, request, &
                ierror) &
                bind(c, name="mpix_mscclpp_f_exscan_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: count, datatype, op, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_pallreduce_init(sendbuf, recvbuf, partitions, count, datatype, op, comm, &
                request, ierror) bind(c, name="mpix_mscclpp_f_pallreduce_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: sendbuf, recvbuf
            !dir$ ignore_tkr sendbuf, recvbuf
            !dec$ attributes no_arg_check :: sendbuf, recvbuf
            type(*), dimension(*), intent(in), asynchronous :: sendbuf
            type(*), dimension(*), asynchronous :: recvbuf
            integer(c_int), intent(in) :: partitions, count, datatype, op, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_psend_init(buf, partitions, count, datatype, dest, tag, comm, &
                request, ierror) bind(c, name="mpix_mscclpp_f_psend_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: buf
            !dir$ ignore_tkr buf
            !dec$ attributes no_arg_check :: buf
            type(*), dimension(*), intent(in), asynchronous :: buf
            integer(c_int), intent(in) :: partitions, count, datatype, dest, tag, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_precv_init(buf, partitions, count, datatype, source, tag, comm, &
                request, ierror) bind(c, name="mpix_mscclpp_f_precv_init")
            import :: c_int, c_intptr_t
            !gcc$ attributes no_arg_check :: buf
            !dir$ ignore_tkr buf
            !dec$ attributes no_arg_check :: buf
            type(*), dimension(*), asynchronous :: buf
            integer(c_int), intent(in) :: partitions, count, datatype, source, tag, comm
            integer(c_intptr_t), intent(out) :: request
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        subroutine MPIX_Mscclpp_query(comm, what, value, ierror) bind(c, name="mpix_mscclpp_f_query")
            import :: c_int, c_int64_t
            integer(c_int), intent(in) :: comm, what
            integer(c_int64_t), intent(out) :: value
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        ! Fills `length` characters of `text`.
        subroutine MPIX_Mscclpp_get_async_error(comm, code, text, length, ierror) &
                bind(c, name="mpix_mscclpp_f_get_async_error")
            import :: c_char, c_int
            integer(c_int), intent(in) :: comm
            integer(c_int), intent(out) :: code
            character(kind=c_char), dimension(*), intent(out) :: text
            integer(c_int), intent(in) :: length
            integer(c_int), intent(out), optional :: ierror
        end subroutine

        ! The functions that follow are those of C, and return an MPI error code.
        integer(c_int) function MPIX_Mscclpp_error_class(which, error_class) &
                bind(c, name="MPIX_Mscclpp_error_class")
            import :: c_int
            integer(c_int), value :: which
            integer(c_int), intent(out) :: error_class
        end function

        integer(c_int) function MPIX_Mscclpp_attach_stream(request, stream) &
                bind(c, name="MPIX_Mscclpp_attach_stream")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: request, stream
        end function

        integer(c_int) function MPIX_Mscclpp_attach_kernels(request, stream) &
                bind(c, name="MPIX_Mscclpp_attach_kernels")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: request, stream
        end function

        integer(c_int) function MPIX_Mscclpp_attach_graph(request, graph) &
                bind(c, name="MPIX_Mscclpp_attach_graph")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: request, graph
        end function

        integer(c_int) function MPIX_Mscclpp_request_get_node(request, node) &
                bind(c, name="MPIX_Mscclpp_request_get_node")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: request
            integer(c_intptr_t), intent(out) :: node
        end function

        integer(c_int) function MPIX_Mscclpp_request_get_device(request, abi, handle, size) &
                bind(c, name="MPIX_Mscclpp_request_get_device")
            import :: c_int, c_intptr_t, c_ptr, c_size_t
            integer(c_intptr_t), value :: request
            integer(c_int), value :: abi
            type(c_ptr), value :: handle
            integer(c_size_t), value :: size
        end function

        integer(c_int) function MPIX_Mscclpp_prepare(n, requests) &
                bind(c, name="MPIX_Mscclpp_prepare")
            import :: c_int, c_intptr_t
            integer(c_int), value :: n
            integer(c_intptr_t), dimension(*), intent(in) :: requests
        end function

        integer(c_int) function MPIX_Mscclpp_start(n, requests) &
                bind(c, name="MPIX_Mscclpp_start")
            import :: c_int, c_intptr_t
            integer(c_int), value :: n
            integer(c_intptr_t), dimension(*), intent(in) :: requests
        end function

        integer(c_int) function MPIX_Mscclpp_complete(n, requests) &
                bind(c, name="MPIX_Mscclpp_complete")
            import :: c_int, c_intptr_t
            integer(c_int), value :: n
            integer(c_intptr_t), dimension(*), intent(in) :: requests
        end function

        integer(c_int) function MPIX_Mscclpp_wait(n, requests) &
                bind(c, name="MPIX_Mscclpp_wait")
            import :: c_int, c_intptr_t
            integer(c_int), value :: n
            integer(c_intptr_t), dimension(*), intent(in) :: requests
        end function

        integer(c_int) function MPIX_Mscclpp_pready(low, high, request) &
                bind(c, name="MPIX_Mscclpp_pready")
            import :: c_int, c_intptr_t
            integer(c_int), value :: low, high
            integer(c_intptr_t), value :: request
        end function

        integer(c_int) function MPIX_Mscclpp_parrived(request, partition, flag) &
                bind(c, name="MPIX_Mscclpp_parrived")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: request
            integer(c_int), value :: partition
            integer(c_int), intent(out) :: flag
        end function

        integer(c_int) function MPIX_Mscclpp_test(request, flag) &
                bind(c, name="MPIX_Mscclpp_test")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: request
            integer(c_int), intent(out) :: flag
        end function

        integer(c_int) function MPIX_Mscclpp_request_free(request) &
                bind(c, name="MPIX_Mscclpp_request_free")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), intent(inout) :: request
        end function

        integer(c_int) function MPIX_Mscclpp_host_stream_create(stream) &
                bind(c, name="MPIX_Mscclpp_host_stream_create")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), intent(out) :: stream
        end function

        integer(c_int) function MPIX_Mscclpp_host_stream_sync(stream) bind(c, name="MPIX_Mscclpp_host_stream_sync")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: stream
        end function

        integer(c_int) function MPIX_Mscclpp_host_stream_destroy(stream) &
                bind(c, name="MPIX_Mscclpp_host_stream_destroy")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: stream
        end function

        integer(c_int) function MPIX_Mscclpp_host_launch(stream, function, argument) &
                bind(c, name="MPIX_Mscclpp_host_launch")
            import :: c_int, c_intptr_t, c_funptr, c_ptr
            integer(c_intptr_t), value :: stream
            type(c_funptr), value :: function
            type(c_ptr), value :: argument
        end function

        integer(c_int) function MPIX_Mscclpp_host_capture_begin(stream) &
                bind(c, name="MPIX_Mscclpp_host_capture_begin")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: stream
        end function

        integer(c_int) function MPIX_Mscclpp_host_capture_end(stream, graph) &
                bind(c, name="MPIX_Mscclpp_host_capture_end")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: stream
            integer(c_intptr_t), intent(out) :: graph
        end function

        integer(c_int) function MPIX_Mscclpp_host_graph_append(graph, added) &
                bind(c, name="MPIX_Mscclpp_host_graph_append")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: graph, added
        end function

        integer(c_int) function MPIX_Mscclpp_host_while(stream, body, condition) &
                bind(c, name="MPIX_Mscclpp_host_while")
            import :: c_int, c_int64_t, c_intptr_t
            integer(c_intptr_t), value :: stream, body
            integer(c_int64_t), intent(in), asynchronous :: condition
        end function

        integer(c_int) function MPIX_Mscclpp_host_graph_launch(graph, stream) &
                bind(c, name="MPIX_Mscclpp_host_graph_launch")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: graph, stream
        end function

        integer(c_int) function MPIX_Mscclpp_host_graph_destroy(graph) &
                bind(c, name="MPIX_Mscclpp_host_graph_destroy")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: graph
        end function
    end interface
end module
