! The Fortran module mpix_mscclpp on the host twin: arguments of every kind, MPI_IN_PLACE, every collective, a graph.
! Ends with exit status 77 where there are no streams of the twin.
module test_fortran_functions
    use, intrinsic :: iso_c_binding
    implicit none
contains
    ! A kernel of the application: doubles an integer.
    subroutine double_it(argument) bind(c)
        type(c_ptr), value :: argument
        integer(c_int), pointer :: number

        call c_f_pointer(argument, number)
        number = 2 * number
    end subroutine
end module

program test_fortran
    use, intrinsic :: iso_c_binding
    use mpi
    use mpix_mscclpp
    use test_fortran_functions
    implicit none
    integer, parameter :: n = 1000
    integer(c_intptr_t) :: stream, graph
    integer :: rank, ranks, ierror, code, step, comm, failures
    integer :: all_failures
    integer(c_int64_t) :: queued, waited
    character(len=80) :: text

    failures = 0
    call MPI_Init(ierror)
    comm = MPI_COMM_WORLD
    call MPI_Comm_rank(comm, rank, ierror)
    call MPI_Comm_size(comm, ranks, ierror)
    if (MPIX_Mscclpp_host_stream_create(stream) /= MPI_SUCCESS) then
        if (rank == 0) print '(a)', 'skipped: no host twin'
        call MPI_Finalize(ierror)
        stop 77
    end if

    call reductions()
    call blocks()
    call sizes()
    call neighbors()
    call in_a_graph()
    call requests()

    call MPIX_Mscclpp_barrier_enqueue(comm, stream)
    call sync()
    call MPIX_Mscclpp_query(comm, MPIX_MSCCLPP_QUERY_QUEUED, queued, ierror)
    call MPIX_Mscclpp_query(comm, MPIX_MSCCLPP_QUERY_WAITED, waited)
    call check(queued >= 17, 'calls that were queued', int(queued))
    call check(waited == 0, 'calls that waited', int(waited))
    text = 'x'
    call MPIX_Mscclpp_get_async_error(comm, code, text, len(text), ierror)
    call check(ierror == MPI_SUCCESS .and. code == MPI_SUCCESS .and. text == ' ', 'no error of the work', code)
    call check(MPIX_Mscclpp_error_class(MPIX_MSCCLPP_ERR_BUSY, code) == MPI_SUCCESS, 'an error class', code)
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierror)
    call MPIX_Mscclpp_bcast_enqueue(code, 1, MPI_INTEGER, ranks, comm, stream, ierror)
    call check(ierror /= MPI_SUCCESS, 'a root that is not there', ierror)
    call check(MPIX_Mscclpp_host_stream_destroy(stream) == MPI_SUCCESS, 'the end of the stream', 0)

    call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, comm, ierror)
    call MPI_Finalize(ierror)
    if (all_failures /= 0) stop 1

contains

    subroutine check(right, what, number)
        logical, intent(in) :: right
        character(len=*), intent(in) :: what
        integer, intent(in) :: number

        if (right) return
        failures = failures + 1
        print '(a, i0, 3a, i0)', 'rank ', rank, ': ', what, ': ', number
    end subroutine

    ! Persistent requests: in the order of the stream, as nodes of a graph, and released part by part.
    subroutine requests()
        integer(c_intptr_t) :: sums(2), parted, graph
        integer, asynchronous :: mine(3), total(3), sent(2 * ranks), got(2 * ranks), parts(4)
        integer :: counts(ranks), displs(ranks), flag, turn, peer

        counts = 2
        displs = [(2 * peer, peer = 0, ranks - 1)]
        call MPIX_Mscclpp_allreduce_init(mine, total, 3, MPI_INTEGER, MPI_SUM, comm, sums(1), ierror)
        call check(ierror == MPI_SUCCESS, 'allreduce_init', ierror)
        call MPIX_Mscclpp_alltoallv_init(sent, counts, displs, MPI_INTEGER, got, counts, displs, MPI_INTEGER, comm, &
            sums(2))
        call check(MPIX_Mscclpp_attach_stream(sums(1), stream) == MPI_SUCCESS, 'attach_stream', 0)
        call check(MPIX_Mscclpp_attach_stream(sums(2), stream) == MPI_SUCCESS, 'attach_stream', 0)
        call check(MPIX_Mscclpp_prepare(2, sums) == MPI_SUCCESS, 'prepare', 0)
        do turn = 1, 3
            mine = turn + rank
            sent = 100 * turn + rank
            call check(MPIX_Mscclpp_start(2, sums) == MPI_SUCCESS, 'start', turn)
            call check(MPIX_Mscclpp_wait(2, sums) == MPI_SUCCESS, 'wait', turn)
            call check(all(total == ranks * turn + ranks * (ranks - 1) / 2), 'a sum that was started again', total(1))
            call check(all(got == [((100 * turn + (peer - 1) / 2), peer = 1, 2 * ranks)]), 'alltoallv', got(1))
        end do
        call check(MPIX_Mscclpp_request_free(sums(1)) == MPI_SUCCESS .and. sums(1) == 0, 'request_free', 0)
        call check(MPIX_Mscclpp_request_free(sums(2)) == MPI_SUCCESS, 'request_free', 0)

        call MPIX_Mscclpp_scan_init(mine, total, 3, MPI_INTEGER, MPI_SUM, comm, sums(1))
        call check(MPIX_Mscclpp_host_capture_begin(stream) == MPI_SUCCESS, 'capture_begin', 0)
        call check(MPIX_Mscclpp_host_capture_end(stream, graph) == MPI_SUCCESS, 'capture_end', 0)
        call check(MPIX_Mscclpp_attach_graph(sums(1), graph) == MPI_SUCCESS, 'attach_graph', 0)
        call check(MPIX_Mscclpp_prepare(1, sums) == MPI_SUCCESS, 'prepare', 0)
        call check(MPIX_Mscclpp_start(1, sums) == MPI_SUCCESS, 'start', 0)
        mine = 2
        call check(MPIX_Mscclpp_host_graph_launch(graph, stream) == MPI_SUCCESS, 'graph_launch', 0)
        call sync()
        call check(all(total == 2 * (rank + 1)), 'a scan in a graph', total(1))
        call check(MPIX_Mscclpp_host_graph_destroy(graph) == MPI_SUCCESS, 'graph_destroy', 0)
        call check(MPIX_Mscclpp_request_free(sums(1)) == MPI_SUCCESS, 'request_free', 0)

        call MPIX_Mscclpp_pallreduce_init(MPI_IN_PLACE, parts, 2, 2, MPI_INTEGER, MPI_SUM, comm, parted, ierror)
        call check(MPIX_Mscclpp_attach_kernels(parted, stream) == MPI_SUCCESS, 'attach_kernels', 0)
        call check(MPIX_Mscclpp_prepare(1, [parted]) == MPI_SUCCESS, 'prepare', 0)
        parts = [1, 2, 3, 4]
        call check(MPIX_Mscclpp_start(1, [parted]) == MPI_SUCCESS, 'start', 0)
        call check(MPIX_Mscclpp_pready(0, 1, parted) == MPI_SUCCESS, 'pready', 0)
        call check(MPIX_Mscclpp_complete(1, [parted]) == MPI_SUCCESS, 'complete', 0)
        call check(MPIX_Mscclpp_wait(1, [parted]) == MPI_SUCCESS, 'wait', 0)
        call check(MPIX_Mscclpp_test(parted, flag) == MPI_SUCCESS .and. flag /= 0, 'test', flag)
        call check(all(parts == ranks * [1, 2, 3, 4]), 'parts', parts(1))
        call sync()
        call check(MPIX_Mscclpp_request_free(parted) == MPI_SUCCESS, 'request_free', 0)
    end subroutine

    subroutine sync()
        call check(MPIX_Mscclpp_host_stream_sync(stream) == MPI_SUCCESS, 'the stream', 0)
    end subroutine

    ! Sums, of arrays of two dimensions, of scalars, and in place.
    subroutine reductions()
        real(c_double), asynchronous :: mine(10, n / 10), sum(10, n / 10)
        integer, asynchronous :: one, scanned, before, ignored
        integer :: i

        mine = rank + 1
        sum = 0
        call MPIX_Mscclpp_allreduce_enqueue(mine, sum, n, MPI_DOUBLE_PRECISION, MPI_SUM, comm, stream, ierror)
        call check(ierror == MPI_SUCCESS, 'ierror of allreduce', ierror)
        call MPIX_Mscclpp_allreduce_enqueue(MPI_IN_PLACE, sum, n, MPI_DOUBLE_PRECISION, MPI_MAX, comm, stream)
        one = 10 + rank
        call MPIX_Mscclpp_scan_enqueue(one, scanned, 1, MPI_INTEGER, MPI_SUM, comm, stream, ierror)
        before = -1
        call MPIX_Mscclpp_exscan_enqueue(one, before, 1, MPI_INTEGER, MPI_SUM, comm, stream, ierror)
        ignored = -2
        call MPIX_Mscclpp_reduce_enqueue(one, ignored, 1, MPI_INTEGER, MPI_MIN, ranks - 1, comm, stream, ierror)
        call sync()
        call check(all(sum == ranks * (ranks + 1) / 2), 'allreduce', int(sum(1, 1)))
        call check(scanned == sum_to(rank), 'scan', scanned)
        if (rank > 0) call check(before == sum_to(rank - 1), 'exscan', before)
        call check(ignored == merge(10, -2, rank == ranks - 1), 'reduce', ignored)
        do i = 1, 2
            one = 100 * i + rank
            call MPIX_Mscclpp_bcast_enqueue(one, 1, MPI_INTEGER, mod(i, ranks), comm, stream, ierror)
            call sync()
            call check(one == 100 * i + mod(i, ranks), 'bcast', one)
        end do
    end subroutine

    integer function sum_to(last)
        integer, intent(in) :: last

        sum_to = (last + 1) * 10 + last * (last + 1) / 2
    end function

    ! Blocks of one size.
    subroutine blocks()
        integer, asynchronous :: mine(2), gathered(2, ranks), kept(2, ranks), sent(2, ranks), got(2, ranks), part(2)
        integer, asynchronous :: reduced(2)
        integer :: i, counts(ranks)

        mine = [rank, -rank]
        gathered = -7
        kept = -7
        counts = 2
        do i = 1, ranks
            sent(:, i) = 100 * rank + i - 1
        end do
        call MPIX_Mscclpp_allgather_enqueue(mine, 2, MPI_INTEGER, gathered, 2, MPI_INTEGER, comm, stream, ierror)
        call MPIX_Mscclpp_gather_enqueue(mine, 2, MPI_INTEGER, kept, 2, MPI_INTEGER, 0, comm, stream, ierror)
        call MPIX_Mscclpp_alltoall_enqueue(sent, 2, MPI_INTEGER, got, 2, MPI_INTEGER, comm, stream, ierror)
        call MPIX_Mscclpp_scatter_enqueue(sent, 2, MPI_INTEGER, part, 2, MPI_INTEGER, 0, comm, stream, ierror)
        call MPIX_Mscclpp_reduce_scatter_enqueue(sent, mine, counts, MPI_INTEGER, MPI_SUM, comm, stream, ierror)
        call MPIX_Mscclpp_reduce_scatter_block_enqueue(sent, reduced, 2, MPI_INTEGER, MPI_MAX, comm, stream, ierror)
        call sync()
        do i = 1, ranks
            call check(gathered(1, i) == i - 1 .and. gathered(2, i) == 1 - i, 'allgather', gathered(1, i))
            if (rank == 0) call check(kept(2, i) == 1 - i, 'gather', kept(2, i))
            call check(all(got(:, i) == 100 * (i - 1) + rank), 'alltoall', got(1, i))
        end do
        call check(all(part == rank), 'scatter', part(1))
        call check(all(mine == 50 * ranks * (ranks - 1) + ranks * rank), 'reduce_scatter', mine(1))
        call check(all(reduced == 100 * (ranks - 1) + rank), 'reduce_scatter_block', reduced(1))
    end subroutine

    ! Blocks of sizes of their own: rank r has r + 1 integers for everyone.
    subroutine sizes()
        integer, asynchronous :: mine(ranks), all_of(ranks * ranks), to(ranks * ranks), from(ranks * ranks)
        integer :: i, counts(ranks), places(ranks), own(ranks), own_places(ranks), bytes(ranks), own_bytes(ranks)
        integer :: types(ranks)

        mine = rank
        to = rank
        own = rank + 1
        do i = 1, ranks
            counts(i) = i
            places(i) = ranks * (i - 1)
            own_places(i) = (rank + 1) * (i - 1)
        end do
        bytes = 4 * places
        own_bytes = 4 * own_places
        types = MPI_INTEGER

        all_of = -1
        call MPIX_Mscclpp_allgatherv_enqueue(mine, rank + 1, MPI_INTEGER, all_of, counts, places, MPI_INTEGER, comm, &
            stream, ierror)
        call sync()
        call check_blocks(all_of, 'allgatherv')
        all_of = -1
        call MPIX_Mscclpp_gatherv_enqueue(mine, rank + 1, MPI_INTEGER, all_of, counts, places, MPI_INTEGER, 0, comm, &
            stream, ierror)
        call sync()
        if (rank == 0) call check_blocks(all_of, 'gatherv')
        mine = -1
        call MPIX_Mscclpp_scatterv_enqueue(all_of, counts, places, MPI_INTEGER, mine, rank + 1, MPI_INTEGER, 0, comm, &
            stream, ierror)
        call sync()
        call check(all(mine(1:rank + 1) == rank) .and. all(mine(rank + 2:) == -1), 'scatterv', mine(1))
        from = -1
        call MPIX_Mscclpp_alltoallv_enqueue(to, own, own_places, MPI_INTEGER, from, counts, places, MPI_INTEGER, comm, &
            stream, ierror)
        call sync()
        call check_blocks(from, 'alltoallv')
        from = -1
        call MPIX_Mscclpp_alltoallw_enqueue(to, own, own_bytes, types, from, counts, bytes, types, comm, stream, ierror)
        call sync()
        call check_blocks(from, 'alltoallw')
    end subroutine

    ! In a ring each rank tells the next one and the one before what they get.
    subroutine neighbors()
        integer, asynchronous :: mine(2), found(4), to(4)
        integer :: ring, before, after, i, ones(2), places(2), types(2)
        integer(MPI_ADDRESS_KIND) :: bytes(2)
        integer(c_intptr_t) :: request

        before = modulo(rank - 1, ranks)
        after = modulo(rank + 1, ranks)
        ones = 1
        types = MPI_INTEGER
        call MPI_Dist_graph_create_adjacent(comm, 2, [before, after], ones, 2, [after, before], ones, MPI_INFO_NULL, &
            .false., ring, ierror)
        mine = rank
        to = [(100 * rank + i, i = 1, 4)]
        call MPIX_Mscclpp_neighbor_allgather_enqueue(mine, 2, MPI_INTEGER, found, 2, MPI_INTEGER, ring, stream, ierror)
        call sync()
        call check(all(found == [before, before, after, after]), 'neighbor_allgather', found(1))
        ones = 1
        places = [2, 0]
        found = -1
        call MPIX_Mscclpp_neighbor_allgatherv_enqueue(mine, 1, MPI_INTEGER, found, ones, places, MPI_INTEGER, ring, &
            stream, ierror)
        call sync()
        call check(all(found == [after, -1, before, -1]), 'neighbor_allgatherv', found(1))
        call MPIX_Mscclpp_neighbor_alltoall_enqueue(to, 2, MPI_INTEGER, found, 2, MPI_INTEGER, ring, stream, ierror)
        call sync()
        call check(all(found == [100 * before + 1, 100 * before + 2, 100 * after + 3, 100 * after + 4]), &
            'neighbor_alltoall', found(1))
        found = -1
        call MPIX_Mscclpp_neighbor_alltoallv_enqueue(to, ones, places, MPI_INTEGER, found, ones, places, MPI_INTEGER, &
            ring, stream, ierror)
        call sync()
        call check(all(found == [100 * after + 1, -1, 100 * before + 3, -1]), 'neighbor_alltoallv', found(1))
        found = -1
        bytes = 4 * places
        call MPIX_Mscclpp_neighbor_alltoallw_enqueue(to, ones, bytes, types, found, ones, bytes, types, ring, stream, &
            ierror)
        call sync()
        call check(all(found == [100 * after + 1, -1, 100 * before + 3, -1]), 'neighbor_alltoallw', found(1))
        call MPIX_Mscclpp_neighbor_allgather_init(mine, 2, MPI_INTEGER, found, 2, MPI_INTEGER, ring, request, ierror)
        call run_request(request)
        call check(all(found == [before, before, after, after]), 'neighbor_allgather_init', found(1))
        found = -1
        call MPIX_Mscclpp_neighbor_allgatherv_init(mine, 1, MPI_INTEGER, found, ones, places, MPI_INTEGER, ring, &
            request, ierror)
        call run_request(request)
        call check(all(found == [after, -1, before, -1]), 'neighbor_allgatherv_init', found(1))
        call MPIX_Mscclpp_neighbor_alltoall_init(to, 2, MPI_INTEGER, found, 2, MPI_INTEGER, ring, request, ierror)
        call run_request(request)
        call check(all(found == [100 * before + 1, 100 * before + 2, 100 * after + 3, 100 * after + 4]), &
            'neighbor_alltoall_init', found(1))
        found = -1
        call MPIX_Mscclpp_neighbor_alltoallv_init(to, ones, places, MPI_INTEGER, found, ones, places, MPI_INTEGER, &
            ring, request, ierror)
        call run_request(request)
        call check(all(found == [100 * after + 1, -1, 100 * before + 3, -1]), 'neighbor_alltoallv_init', found(1))
        found = -1
        call MPIX_Mscclpp_neighbor_alltoallw_init(to, ones, bytes, types, found, ones, bytes, types, ring, request, &
            ierror)
        call run_request(request)
        call check(all(found == [100 * after + 1, -1, 100 * before + 3, -1]), 'neighbor_alltoallw_init', found(1))
        call MPI_Comm_free(ring, ierror)
    end subroutine

    ! Carries out a request once, and frees it.
    subroutine run_request(request)
        integer(c_intptr_t), intent(in) :: request
        integer(c_intptr_t) :: requests(1)
        integer :: code

        requests(1) = request
        code = MPIX_Mscclpp_attach_stream(request, stream)
        if (code == MPI_SUCCESS) code = MPIX_Mscclpp_prepare(1, requests)
        if (code == MPI_SUCCESS) code = MPIX_Mscclpp_start(1, requests)
        if (code == MPI_SUCCESS) code = MPIX_Mscclpp_wait(1, requests)
        if (code == MPI_SUCCESS) code = MPIX_Mscclpp_request_free(requests(1))
        call check(code == MPI_SUCCESS, 'a request of neighbours', code)
    end subroutine

    subroutine check_blocks(values, what)
        integer, intent(in) :: values(ranks, ranks)
        character(len=*), intent(in) :: what
        integer :: i

        do i = 1, ranks
            call check(all(values(1:i, i) == i - 1) .and. all(values(i + 1:, i) == -1), what, values(1, i))
        end do
    end subroutine

    ! Twice the sum, again and again, without a word from the host in between.
    subroutine in_a_graph()
        integer(c_int), asynchronous, target :: value

        value = 1
        call check(MPIX_Mscclpp_host_capture_begin(stream) == MPI_SUCCESS, 'capture', 0)
        call MPIX_Mscclpp_allreduce_enqueue(MPI_IN_PLACE, value, 1, MPI_INTEGER, MPI_SUM, comm, stream, ierror)
        call check(ierror == MPI_SUCCESS, 'a captured call', ierror)
        call check(MPIX_Mscclpp_host_launch(stream, c_funloc(double_it), c_loc(value)) == MPI_SUCCESS, 'a function', 0)
        call check(MPIX_Mscclpp_host_capture_end(stream, graph) == MPI_SUCCESS, 'the end of a capture', 0)
        do step = 1, 4
            call check(MPIX_Mscclpp_host_graph_launch(graph, stream) == MPI_SUCCESS, 'a launch', step)
        end do
        call sync()
        call check(value == (2 * ranks)**4, 'a graph', value)
        call check(MPIX_Mscclpp_host_graph_destroy(graph) == MPI_SUCCESS, 'the end of the graph', 0)
    end subroutine
end program
