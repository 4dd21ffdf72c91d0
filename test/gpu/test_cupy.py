#!/usr/bin/env python3
"""mpi4py with CuPy arrays, unchanged: an application's view of the component.

Run it as `mpirun -n N --mca coll mscclpp python3 test_cupy.py`. Exit status 0: passed, 1: failed, 77: skipped, and the
last line says why. Every array is device memory, and Open MPI itself need not know CUDA.
"""
import sys

SKIPPED = 77


def skip(reason):
    print("skipped:", reason, flush=True)
    sys.exit(SKIPPED)


# Before MPI_Init, which the import of mpi4py.MPI calls.
try:
    import cupy
except ImportError as error:
    skip(f"no CuPy ({error})")
try:
    DEVICES = cupy.cuda.runtime.getDeviceCount()
except cupy.cuda.runtime.CUDARuntimeError as error:
    skip(f"CuPy finds no GPU ({error})")
if DEVICES < 1:
    skip("CuPy finds no GPU")
try:
    from mpi4py import MPI
except ImportError as error:
    skip(f"no mpi4py ({error})")

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
SIZE = WORLD.Get_size()
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
COUNTS = (1, 3, 17, 1000, 65537, 1 << 20)

checks = 0
failures = 0


def check(good, *what):
    global checks, failures
    checks += 1
    if not good:
        failures += 1
        if failures <= 5:
            print(f"rank {RANK}: wrong:", *what, file=sys.stderr, flush=True)


def ready():
    """MPI knows nothing of streams: what made a buffer has to have ended before MPI may read it."""
    cupy.cuda.get_current_stream().synchronize()


def same(array, expected):
    return bool(cupy.array_equal(array, cupy.asarray(expected, dtype=array.dtype)))


def operand(rank, count, dtype):
    """Small integers, exact in every type and, added or multiplied over a few ranks, in every result."""
    values = (cupy.arange(count, dtype="int64") * 7 + rank * 3) % 3 + 1
    return values.astype(dtype)


def fold(function, count, dtype):
    result = operand(0, count, dtype)
    for rank in range(1, SIZE):
        result = function(result, operand(rank, count, dtype)).astype(dtype)
    return result


def allreduce(dtype, name, op, function):
    for count in COUNTS:
        expected = fold(function, count, dtype)
        send = operand(RANK, count, dtype)
        recv = cupy.zeros_like(send)
        ready()
        WORLD.Allreduce(send, recv, op)
        check(same(recv, expected), "Allreduce", dtype, name, count)
        check(same(send, operand(RANK, count, dtype)), "Allreduce changed its operand", dtype, name, count)
        ready()
        WORLD.Allreduce(MPI.IN_PLACE, send, op)
        check(same(send, expected), "Allreduce in place", dtype, name, count)


def allreduce_of_types():
    for dtype in INTEGERS + FLOATS + COMPLEX:
        allreduce(dtype, "sum", MPI.SUM, cupy.add)
        allreduce(dtype, "prod", MPI.PROD, cupy.multiply)
    for dtype in INTEGERS + FLOATS:
        allreduce(dtype, "max", MPI.MAX, cupy.maximum)
        allreduce(dtype, "min", MPI.MIN, cupy.minimum)
    for dtype in INTEGERS:
        allreduce(dtype, "band", MPI.BAND, cupy.bitwise_and)
        allreduce(dtype, "bor", MPI.BOR, cupy.bitwise_or)
        allreduce(dtype, "bxor", MPI.BXOR, cupy.bitwise_xor)


def allreduce_of_views():
    """A part of an array, whose first element has any alignment, and whose neighbours stay as they are."""
    for offset in range(17):
        for count in (1, 15, 4097):
            send = cupy.full(count + 40, 99, dtype="int8")
            recv = cupy.full(count + 40, 77, dtype="int8")
            send[offset : offset + count] = operand(RANK, count, "int8")
            ready()
            WORLD.Allreduce(send[offset : offset + count], recv[16 - offset : 16 - offset + count], MPI.SUM)
            expected = cupy.full(count + 40, 77, dtype="int8")
            expected[16 - offset : 16 - offset + count] = fold(cupy.add, count, "int8")
            check(same(recv, expected), "Allreduce of a view", offset, count)


def kinds_of_memory():
    """The pool is CuPy's default; managed memory, memory of the driver's pool, and pinned memory on one side."""
    expected = fold(cupy.add, 5000, "float32")
    allocators = {"no pool": cupy.cuda.memory._malloc, "managed": cupy.cuda.malloc_managed}
    if cupy.cuda.runtime.deviceGetAttribute(cupy.cuda.runtime.cudaDevAttrMemoryPoolsSupported, cupy.cuda.Device().id):
        allocators["cudaMallocAsync"] = cupy.cuda.malloc_async
    for name, allocator in allocators.items():
        with cupy.cuda.using_allocator(allocator):
            send = operand(RANK, 5000, "float32")
            recv = cupy.zeros_like(send)
        ready()
        WORLD.Allreduce(send, recv, MPI.SUM)
        check(same(recv, expected), "Allreduce of memory:", name)
        del send, recv
    import numpy

    pinned = numpy.frombuffer(cupy.cuda.alloc_pinned_memory(5000 * 4), "float32", 5000)
    pinned[:] = cupy.asnumpy(operand(RANK, 5000, "float32"))
    recv = cupy.zeros(5000, "float32")
    ready()
    WORLD.Allreduce(pinned, recv, MPI.SUM)
    check(same(recv, expected), "Allreduce of pinned memory into device memory")


def communicators():
    for comm in (WORLD.Dup(), WORLD.Split(RANK % 2, -RANK), MPI.COMM_SELF.Dup()):
        value = cupy.full(1000, comm.Get_rank() + 1, dtype="int32")
        ready()
        comm.Allreduce(MPI.IN_PLACE, value, MPI.SUM)
        size = comm.Get_size()
        check(same(value, cupy.full(1000, size * (size + 1) // 2)), "Allreduce on", comm.Get_name())
        comm.Free()


def other_collectives():
    count = 1003
    own = operand(RANK, count, "int32")
    everybody = cupy.concatenate([operand(rank, count, "int32") for rank in range(SIZE)])
    total = fold(cupy.add, count, "int32")

    value = operand(0, count, "int32") if RANK == 0 else cupy.zeros(count, "int32")
    ready()
    WORLD.Bcast(value, 0)
    check(same(value, operand(0, count, "int32")), "Bcast")

    value = cupy.zeros(SIZE * count, "int32")
    ready()
    WORLD.Allgather(own, value)
    check(same(value, everybody), "Allgather")

    value = cupy.zeros(SIZE * count if RANK == SIZE - 1 else 0, "int32")
    ready()
    WORLD.Gather(own, value if RANK == SIZE - 1 else None, SIZE - 1)
    check(RANK != SIZE - 1 or same(value, everybody), "Gather")

    value = cupy.zeros(count, "int32")
    ready()
    WORLD.Scatter(everybody if RANK == 0 else None, value, 0)
    check(same(value, own), "Scatter")

    value = cupy.zeros(count, "int32")
    ready()
    WORLD.Reduce(own, value if RANK == 0 else None, MPI.SUM, 0)
    check(RANK != 0 or same(value, total), "Reduce")

    send = cupy.concatenate([own + rank for rank in range(SIZE)]).astype("int32")
    value = cupy.zeros(SIZE * count, "int32")
    ready()
    WORLD.Alltoall(send, value)
    check(same(value, everybody + RANK), "Alltoall")

    value = cupy.zeros(count, "int32")
    ready()
    WORLD.Reduce_scatter_block(cupy.tile(own, SIZE), value, MPI.SUM)
    check(same(value, total), "Reduce_scatter_block")

    value = cupy.zeros(count, "int32")
    ready()
    request = WORLD.Iallreduce(own, value, MPI.SUM)
    request.Wait()
    check(same(value, total), "Iallreduce")

    value = cupy.zeros(count, "int32")
    ready()
    WORLD.Scan(own, value, MPI.SUM)
    expected = operand(0, count, "int32")
    for rank in range(1, RANK + 1):
        expected = expected + operand(rank, count, "int32")
    check(same(value, expected), "Scan")


def served():
    """Calls that kernels of the component served, or None where mpi4py cannot tell."""
    import ctypes

    try:
        library = ctypes.CDLL(MPI.__file__)  # whose symbols include those of the MPI library
        library.MPI_T_pvar_get_index
    except (OSError, AttributeError):
        return None
    provided, index = ctypes.c_int(), ctypes.c_int()
    library.MPI_T_init_thread(0, ctypes.byref(provided))
    for var_class in range(10):
        if library.MPI_T_pvar_get_index(b"coll_mscclpp_served", var_class, ctypes.byref(index)) == 0:
            break
    else:
        return None
    if served.handle is None:
        session, handle, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        library.MPI_T_pvar_session_create(ctypes.byref(session))
        library.MPI_T_pvar_handle_alloc(session, index, None, ctypes.byref(handle), ctypes.byref(count))
        served.handle = (session, handle)
    value = ctypes.c_ulonglong()
    library.MPI_T_pvar_read(*served.handle, ctypes.byref(value))
    return value.value


served.handle = None


def main():
    local = WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    cupy.cuda.Device(local.Get_rank() % DEVICES).use()
    local.Free()
    before = served()
    allreduce_of_types()
    allreduce_of_views()
    kinds_of_memory()
    communicators()
    other_collectives()
    after = served()
    check(before is not None and after > before, "the component's kernels served no call:", before, after)
    wrong = WORLD.allreduce(failures)
    if RANK == 0:
        print(f"{checks} checks on each of {SIZE} ranks, {wrong} wrong, {after} calls of rank 0 served by kernels")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
