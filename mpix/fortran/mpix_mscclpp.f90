! MPI's collectives in the order of a GPU stream, for Fortran. Compile this file with the program's own compiler, as
! modules of one compiler are of no use to another, and link with the library:
!
!     mpifort $(pkg-config --variable=fortran mpix_mscclpp) program.f90 $(pkg-config --libs mpix_mscclpp)
!
! The subroutines are those of mpix_mscclpp.h, which says what they do, with MPI's arguments in MPI's order, the stream
! and an optional ierror. Handles are integers, those of the module mpi or of mpif.h; with the module mpi_f08 pass
! comm%mpi_val, MPI_SUM%mpi_val and so on. Integers are of C's kind, which is the default kind unless the compiler was
! told otherwise. `stream` is the address of a cudaStream_t (CUDA Fortran's streams are such integers), 0 for the
! default stream, or a stream of the host twin.
!
! A buffer is any contiguous array, or one element. It must not be a section with gaps: the compiler would pass a copy,
! which is gone when the work begins. Give variables that are buffers the attribute `asynchronous`, so that the
! compiler keeps their accesses behind the synchronisation of the stream.
module mpix_mscclpp
    use, intrinsic :: iso_c_binding, only: c_char, c_funptr, c_int, c_int64_t, c_intptr_t, c_ptr
    implicit none
    private :: c_char, c_funptr, c_int, c_int64_t, c_intptr_t, c_ptr
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
