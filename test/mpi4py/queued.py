"""The Python module mpix_mscclpp on the host twin, with arrays of NumPy: every collective, buffers and streams in every
form, graphs, and what is refused. Prints a line with "right" at the end."""
import array
import sys
import types

import numpy
from mpi4py import MPI

import mpix_mscclpp

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
TRIANGLE = SIZE * (SIZE + 1) // 2
failures = []


def check(right, what):
    if not right:
        failures.append(what)
        print(f"rank {RANK}: {what}", flush=True)


def same(found, expected, what):
    check(numpy.array_equal(found, expected), f"{what}: {found}, not {expected}")


def refused(kind, what, call, *arguments, **keywords):
    """One of this kind, which says something."""
    try:
        call(*arguments, **keywords)
    except kind as error:
        check(len(str(error)) > 10, f"{what}: the error says only '{error}'")
    else:
        check(False, f"{what} is not refused")


def reductions(comm, stream):
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"):
        mine, total = numpy.full(100, RANK + 1, dtype), numpy.zeros(100, dtype)
        comm.Allreduce(mine, total, MPI.SUM, stream=stream)
        stream.synchronize()
        same(total, numpy.full(100, TRIANGLE, dtype), f"Allreduce of {dtype}")
    total = numpy.full((3, 5), float(RANK + 1), order="F")
    comm.Allreduce(MPI.IN_PLACE, total, MPI.MAX, stream=stream)
    comm.Allreduce(MPI.IN_PLACE, [total, 7, MPI.DOUBLE], stream=stream)
    stream.synchronize()
    same(total.ravel(order="F"), [SIZE * SIZE] * 7 + [SIZE] * 8, "Allreduce in place, and of a part")

    mine, scanned, before = (numpy.full(4, RANK + 1) for _ in range(3))
    comm.Scan(mine, scanned, stream=stream)
    comm.Exscan(mine, before, stream=stream)
    least = numpy.zeros(4, mine.dtype) if RANK == SIZE - 1 else None
    comm.Reduce(mine, least, MPI.MIN, root=SIZE - 1, stream=stream)
    kept = numpy.full(2, RANK + 1)
    comm.Reduce(MPI.IN_PLACE if RANK == 0 else kept, kept if RANK == 0 else None, root=0, stream=stream)
    parts = numpy.arange(2 * SIZE) + RANK
    block, piece = numpy.zeros(2, parts.dtype), numpy.zeros(RANK + 1, parts.dtype)
    comm.Reduce_scatter_block(parts, block, stream=stream)
    uneven = numpy.full(TRIANGLE, RANK)
    comm.Reduce_scatter(uneven, piece, [rank + 1 for rank in range(SIZE)], MPI.SUM, stream=stream)
    stream.synchronize()
    same(scanned, [(RANK + 1) * (RANK + 2) // 2] * 4, "Scan")
    if RANK > 0:
        same(before, [RANK * (RANK + 1) // 2] * 4, "Exscan")
    if least is not None:
        same(least, [1] * 4, "Reduce")
    same(kept, [TRIANGLE if RANK == 0 else RANK + 1] * 2, "Reduce in place")
    ranks = SIZE * (SIZE - 1) // 2
    same(block, [2 * RANK * SIZE + ranks, (2 * RANK + 1) * SIZE + ranks], "Reduce_scatter_block")
    same(piece, [ranks] * (RANK + 1), "Reduce_scatter")
    comm.Reduce_scatter_block(MPI.IN_PLACE, parts, stream=stream)
    stream.synchronize()
    same(parts[:2], block, "Reduce_scatter_block in place")


def blocks(comm, stream):
    mine = numpy.array([RANK, -RANK], "i4")
    everyone = numpy.array([value for rank in range(SIZE) for value in (rank, -rank)], "i4")
    gathered, kept = numpy.zeros_like(everyone), numpy.zeros_like(everyone)
    comm.Allgather(mine, gathered, stream=stream)
    comm.Gather(mine, [kept, 2, MPI.INT] if RANK == 0 else None, stream=stream)
    in_place = numpy.where(numpy.arange(2 * SIZE) // 2 == RANK, everyone, 0).astype("i4")
    comm.Allgather(MPI.IN_PLACE, in_place, stream=stream)
    part = numpy.zeros(2, "i4")
    comm.Scatter(everyone if RANK == SIZE - 1 else None, part, root=SIZE - 1, stream=stream)
    there, here = numpy.arange(SIZE, dtype="f4") + 100 * RANK, numpy.zeros(SIZE, "f4")
    comm.Alltoall(there, here, stream=stream)
    word = bytearray(b"twin" if RANK == 0 else b"....")
    comm.Bcast(word, stream=stream)
    numbers = array.array("l", [RANK, 7])
    comm.Bcast([numbers, 1, MPI.LONG], root=SIZE - 1, stream=stream)
    comm.Barrier(stream=stream)
    stream.synchronize()
    same(gathered, everyone, "Allgather")
    same(in_place, everyone, "Allgather in place")
    if RANK == 0:
        same(kept, everyone, "Gather")
    same(part, mine, "Scatter")
    same(here, numpy.arange(SIZE, dtype="f4") * 100 + RANK, "Alltoall")
    check(word == b"twin", f"Bcast of bytes: {word}")
    same(numbers, [SIZE - 1, 7], "Bcast of a part")


def sizes(comm, stream):
    """Rank r has r + 1 elements for everyone."""
    counts = [rank + 1 for rank in range(SIZE)]
    places = [SIZE * rank for rank in range(SIZE)]
    mine = numpy.full(RANK + 1, RANK, "f8")
    together = numpy.array([rank for rank in range(SIZE) for _ in range(rank + 1)], "f8")
    apart = numpy.full(SIZE * SIZE, -1.0)
    for rank in range(SIZE):
        apart[places[rank]:places[rank] + rank + 1] = rank
    found = numpy.zeros(TRIANGLE)
    comm.Allgatherv(mine, [found, counts], stream=stream)
    stream.synchronize()
    same(found, together, "Allgatherv")
    found = numpy.full(SIZE * SIZE, -1.0)
    comm.Allgatherv(mine, [found, (counts, places), MPI.DOUBLE], stream=stream)
    stream.synchronize()
    same(found, apart, "Allgatherv with displacements")
    found = numpy.full(SIZE * SIZE, -1.0)
    comm.Gatherv(mine, [found, counts, places, MPI.DOUBLE] if RANK == 0 else None, stream=stream)
    stream.synchronize()
    if RANK == 0:
        same(found, apart, "Gatherv")
    back = numpy.zeros(RANK + 1)
    comm.Scatterv([found, counts, places, MPI.DOUBLE] if RANK == 0 else None, back, stream=stream)
    stream.synchronize()
    same(back, mine, "Scatterv")
    there, found = numpy.full(SIZE * (RANK + 1), float(RANK)), numpy.zeros(TRIANGLE)
    comm.Alltoallv([there, [RANK + 1] * SIZE], [found, counts], stream=stream)
    stream.synchronize()
    same(found, together, "Alltoallv")
    found = numpy.full(SIZE * SIZE, -1.0)
    comm.Alltoallw([there, [RANK + 1] * SIZE, [8 * (RANK + 1) * rank for rank in range(SIZE)], [MPI.DOUBLE] * SIZE],
                   [found, counts, [8 * place for place in places], [MPI.DOUBLE] * SIZE], stream=stream)
    stream.synchronize()
    same(found, apart, "Alltoallw")


def neighbors(_, stream):
    """A ring, in which each rank tells the next one and the one before what they get."""
    ring = WORLD.Create_dist_graph_adjacent([(RANK - 1) % SIZE, (RANK + 1) % SIZE],
                                            [(RANK + 1) % SIZE, (RANK - 1) % SIZE])
    comm = mpix_mscclpp.Queued(ring)
    before, after = (RANK - 1) % SIZE, (RANK + 1) % SIZE
    mine, found = numpy.full(3, RANK), numpy.zeros(6, int)
    comm.Neighbor_allgather(mine, found, stream=stream)
    stream.synchronize()
    same(found, [before] * 3 + [after] * 3, "Neighbor_allgather")
    found = numpy.zeros(before + after + 2, int)
    comm.Neighbor_allgatherv(numpy.full(RANK + 1, RANK), [found, [before + 1, after + 1]], stream=stream)
    stream.synchronize()
    same(found, [before] * (before + 1) + [after] * (after + 1), "Neighbor_allgatherv")
    there, found = numpy.array([RANK, RANK + 100]), numpy.zeros(2, int)  # for the next one, and the one before
    comm.Neighbor_alltoall(there, found, stream=stream)
    stream.synchronize()
    same(found, [before, after + 100], "Neighbor_alltoall")
    there, found = numpy.array([RANK, RANK, RANK + 100]), numpy.zeros(3, int)
    comm.Neighbor_alltoallv([there, [2, 1]], [found, [2, 1]], stream=stream)
    stream.synchronize()
    same(found, [before, before, after + 100], "Neighbor_alltoallv")
    found[:] = 0
    comm.Neighbor_alltoallw([there, [2, 1], [0, 16], [MPI.INT64_T] * 2], [found, [2, 1], [8, 0], [MPI.INT64_T] * 2],
                            stream=stream)
    stream.synchronize()
    same(found, [after + 100, before, before], "Neighbor_alltoallw")
    check(comm.Get_queued() == 5, f"{comm.Get_queued()} of 5 collectives of neighbours were queued")
    gathered, part, parts, typed = (numpy.zeros(size, int) for size in (6, 2, 3, 3))
    varied = numpy.zeros(before + after + 2, int)
    made = [(comm.Neighbor_allgather_init(mine, gathered), gathered, [before] * 3 + [after] * 3),
            (comm.Neighbor_allgatherv_init(numpy.full(RANK + 1, RANK), [varied, [before + 1, after + 1]]), varied,
             [before] * (before + 1) + [after] * (after + 1)),
            (comm.Neighbor_alltoall_init(numpy.array([RANK, RANK + 100]), part), part, [before, after + 100]),
            (comm.Neighbor_alltoallv_init([there, [2, 1]], [parts, [2, 1]]), parts, [before, before, after + 100]),
            (comm.Neighbor_alltoallw_init([there, [2, 1], [0, 16], [MPI.INT64_T] * 2],
                                          [typed, [2, 1], [8, 0], [MPI.INT64_T] * 2]), typed,
             [after + 100, before, before])]
    for number, (request, found, right) in enumerate(made):
        request.attach_stream(stream)
        request.prepare()
        request.start()
        request.wait()
        same(found, right, f"request {number} of neighbours")
        request.free()
    refused(TypeError, "neighbours without a topology", mpix_mscclpp.Queued(WORLD).Neighbor_alltoall, there, found,
            stream=stream)
    refused(ValueError, "a wrong number of counts", comm.Neighbor_alltoallv, [there, [3]], [found, [2, 1]],
            stream=stream)
    ring.Free()


def graphs(comm, stream):
    value = numpy.array([1, 2])

    def double():
        value[:] *= 2

    with stream.capture() as graph:
        comm.Allreduce(MPI.IN_PLACE, value, stream=stream)
        stream.launch(double)
    same(value, [1, 2], "what is only recorded")
    for _ in range(3):
        graph.launch(stream)
    stream.synchronize()
    same(value, [(2 * SIZE) ** 3, 2 * (2 * SIZE) ** 3], "a graph")
    graph.destroy()
    refused(ValueError, "a destroyed graph", graph.launch, stream)
    parts = numpy.arange(1, SIZE + 1)
    with stream.capture() as graph:
        comm.Reduce_scatter(MPI.IN_PLACE, parts, [1] * SIZE, MPI.SUM, stream=stream)
    graph.launch(stream)
    stream.synchronize()
    same(parts[:1], [SIZE * (RANK + 1)], "Reduce_scatter in place in a graph")
    graph.destroy()
    # Nobody but the stream has these arrays.
    total = numpy.zeros(1 << 16)
    for _ in range(5):
        comm.Allreduce(numpy.full(1 << 16, 1.0), total, stream=stream)
    stream.synchronize()
    same(total, numpy.full(1 << 16, float(SIZE)), "operands that nobody else keeps")


class Numba:
    """As Numba's streams are."""

    def __init__(self, address):
        self.handle = type("pointer", (), {"value": address})


class Protocol:
    def __init__(self, address):
        self.address = address

    def __cuda_stream__(self):
        return 0, self.address


class Torch:
    def __init__(self, address):
        self.cuda_stream = address


class Interface:
    """Memory of a GPU, as CuPy shows it; to the twin it is that."""

    def __init__(self, of, strides=None):
        self.of = of
        self.__cuda_array_interface__ = {"data": (of.ctypes.data, False), "shape": of.shape, "strides": strides,
                                         "typestr": of.dtype.str, "version": 3}


def forms(comm, stream):
    for made in (stream, stream.ptr, Numba(stream.ptr), Protocol(stream.ptr), Torch(stream.ptr)):
        value = numpy.array([RANK + 1], "i8")
        comm.Allreduce(MPI.IN_PLACE, Interface(value), stream=made)
        stream.synchronize()
        same(value, [TRIANGLE], f"a stream as {type(made).__name__}")
    value = numpy.array([RANK + 1])
    waited = comm.Get_waited()
    comm.Allreduce(MPI.IN_PLACE, value)  # the default stream; the twin has none
    same(value, [TRIANGLE], "without a stream")
    check(comm.Get_waited() == waited + 1, "a call without a stream is not counted as one that waited")

    for dtype in ("c8", "c16", "f4", "u2", "i8"):  # the buffer protocol alone
        value = numpy.full(3, RANK + 1, dtype)
        if dtype[0] == "c":
            value += 1j
        comm.Allreduce(MPI.IN_PLACE, memoryview(value), stream=stream)
        stream.synchronize()
        same(value, numpy.full(3, TRIANGLE + (SIZE * 1j if dtype[0] == "c" else 0)), f"a buffer of {dtype}")
    value = numpy.array([RANK + 1])

    square = numpy.zeros((4, 4))
    refused(ValueError, "a column", comm.Allreduce, MPI.IN_PLACE, square[:, 1], stream=stream)
    refused(ValueError, "a column of a GPU", comm.Bcast, Interface(square, (8, 64)), stream=stream)
    refused(ValueError, "two sizes", comm.Allreduce, numpy.zeros(2), numpy.zeros(3), stream=stream)
    refused(ValueError, "two types", comm.Allreduce, numpy.zeros(2, "i4"), numpy.zeros(2, "f4"), stream=stream)
    refused(ValueError, "memory that is read only", comm.Allreduce, MPI.IN_PLACE, b"1234", stream=stream)
    refused(ValueError, "a wrong number of counts", comm.Allgatherv, value, [value, [1] * (SIZE + 1)], stream=stream)
    refused(TypeError, "half precision without a type", comm.Bcast, numpy.zeros(2, "f2"), stream=stream)
    refused(TypeError, "a structure without a type", comm.Bcast, memoryview(numpy.zeros(2, "i4,f4")), stream=stream)
    refused(TypeError, "another byte order", comm.Bcast, numpy.zeros(2, numpy.dtype("i4").newbyteorder()),
            stream=stream)
    refused(TypeError, "a buffer of another byte order", comm.Bcast,
            memoryview(numpy.zeros(2, numpy.dtype("i4").newbyteorder())), stream=stream)
    refused(ValueError, "Alltoallw without counts", comm.Alltoallw, [value, [MPI.LONG] * SIZE],
            [value, [MPI.LONG] * SIZE], stream=stream)
    refused(ValueError, "Alltoallw without displacements", comm.Alltoallw, [value, [1] * SIZE, [MPI.LONG] * SIZE],
            [value, [1] * SIZE, [MPI.LONG] * SIZE], stream=stream)
    refused(TypeError, "a word for a stream", comm.Bcast, value, stream="stream")
    refused(TypeError, "a number for a communicator", mpix_mscclpp.Queued, 7)
    refused(MPI.Exception, "a root that is not there", comm.Bcast, value, root=SIZE, stream=stream)


def requests(comm, stream):
    """Persistent requests: in a stream, in a graph, and part by part."""
    mine, total = numpy.zeros(5, "i4"), numpy.zeros(5, "i4")
    counts = [1 + (RANK + peer) % 2 for peer in range(SIZE)]
    sent, got = numpy.zeros(sum(counts), "i4"), numpy.zeros(sum(counts), "i4")
    made = [comm.Allreduce_init(mine, total, MPI.SUM), comm.Alltoallv_init([sent, counts], [got, counts])]
    for request in made:
        request.attach_stream(stream)
        request.prepare()
    for turn in range(3):
        mine[:] = turn + RANK
        sent[:] = 10 * turn + RANK
        for request in made:
            request.start()
            request.wait()
            check(request.test(), "a request is not complete")
        same(total, [SIZE * turn + TRIANGLE - SIZE] * 5, f"a request in a stream, turn {turn}")
        same(got, numpy.repeat([10 * turn + peer for peer in range(SIZE)], counts), f"Alltoallv_init, turn {turn}")
    for request in made:
        request.free()
    refused(ValueError, "a freed request", made[0].start)
    refused(AttributeError, "a collective that is none", lambda: comm.Nothing_init)

    with stream.capture() as graph:
        pass
    request = comm.Bcast_init(mine, root=0)
    request.attach_graph(graph)
    request.prepare()
    request.start()
    check(request.get_node() is None, "a node of the host twin")
    mine[:] = RANK + 7
    graph.launch(stream)
    stream.synchronize()
    same(mine, [7] * 5, "a request in a graph")
    request.free()
    graph.destroy()

    parts = numpy.full(6, RANK + 1)
    request = comm.Pallreduce_init(MPI.IN_PLACE, parts, 3)
    request.attach_kernels(stream)
    request.prepare()
    request.start()
    request.pready(2)
    request.pready(0, 1)
    request.complete()
    request.wait()
    stream.synchronize()
    same(parts, [TRIANGLE] * 6, "a request in parts")
    request.free()


def current_streams(comm, stream):
    """Requests whose buffers stand in lists use the current stream of the arrays' framework, which is imitated here."""
    sys.modules["cupy"] = cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: stream)
    Interface.__module__ = "cupy"
    parts = numpy.full(6, RANK + 1, "i8")
    made = [(comm.Pallreduce_init(MPI.IN_PLACE, [Interface(parts), 2, MPI.INT64_T], 3), 3)]
    message = numpy.full(4, RANK, "i8")
    if SIZE > 1 and RANK == 0:
        made.append((comm.Psend_init([Interface(message), 2, MPI.INT64_T], 2, 1), 2))
    elif RANK == 1:
        made.append((comm.Precv_init([Interface(message), 2, MPI.INT64_T], 2, 0), 0))
    for request, partitions in made:
        request.attach_kernels()  # the twin refuses the default stream
        request.prepare()
        request.start()
        if partitions > 0:
            request.pready(0, partitions - 1)
        request.complete()
        request.wait()
    stream.synchronize()
    same(parts, [TRIANGLE] * 6, "a request of a list")
    same(message, [0 if RANK == 1 else RANK] * 4, "a message of a list")
    for request, _ in made:
        request.free()
    Interface.__module__ = __name__
    del sys.modules["cupy"]


def main():
    comm, stream = mpix_mscclpp.Queued(WORLD), mpix_mscclpp.HostStream()
    for part in (reductions, blocks, sizes, neighbors, graphs, requests, current_streams, forms):
        part(comm, stream)
    stream.synchronize()
    check(comm.Get_queued() > 30, f"only {comm.Get_queued()} calls were queued")
    check(comm.Get_async_error() == (MPI.SUCCESS, ""), f"an error: {comm.Get_async_error()}")
    stream.destroy()
    refused(ValueError, "a destroyed stream", comm.Barrier, stream=stream)
    wrong = WORLD.allreduce(len(failures))
    if RANK == 0:
        print(f"mpix_mscclpp in Python, {SIZE} ranks, {comm.Get_queued()} calls queued: "
              f"{'right' if wrong == 0 else 'wrong'}", flush=True)
    sys.exit(wrong != 0)


main()
