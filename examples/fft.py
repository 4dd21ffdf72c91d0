#!/usr/bin/env python3
"""A Fourier transform of an array that is spread over the ranks: transposed by MPI_Alltoallw of subarrays.

Each rank has a slab of a three-dimensional array. It transforms the two axes that it has in full. Then it needs the
third axis in full, and one Alltoallw moves the data: each block is a subarray of what one rank has and of what another
one gets, described by MPI datatypes, so nothing is packed or copied by hand. This is how mpi4py-fft and its like
transpose. Without CuPy or a GPU the arrays are NumPy's; with the host twin, Alltoallw takes them as if they were on a
GPU.

Usage: mpirun -n RANKS --mca coll mscclpp python3 fft.py [SIZE]
       mpirun -n RANKS --mca coll mscclpp --mca coll_mscclpp_device host python3 fft.py --cpu [SIZE]
SIZE: elements along each axis (default: 60; need not be a multiple of the ranks).
"""
import sys
import time

import numpy

xp = numpy  # the module of the arrays: numpy or cupy
if "--cpu" not in sys.argv[1:]:
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() > 0:
            xp = cupy
    except Exception as error:  # no CuPy, or no driver
        print(f"fft: NumPy on the CPU, as there is no CuPy with a GPU ({error})", file=sys.stderr)

from mpi4py import MPI  # after CuPy: this calls MPI_Init

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()


def choose_device():
    """Chooses this rank's GPU, if arrays are CuPy's: ranks of one machine take its GPUs in turn."""
    machine = COMM.Split_type(MPI.COMM_TYPE_SHARED)
    if xp is not numpy:
        xp.cuda.Device(machine.Get_rank() % xp.cuda.runtime.getDeviceCount()).use()
    machine.Free()


def finish_work():
    """Waits for the GPU. MPI knows nothing of streams, so what it reads has to be there before the call."""
    if xp is not numpy:
        xp.cuda.get_current_stream().synchronize()


def bounds_of(length, rank):
    """Returns where a rank's part of an axis begins and ends."""
    return length * rank // SIZE, length * (rank + 1) // SIZE


class Transposition:
    """Moves an array of this shape, divided along axis `old`, to one that is divided along axis `new`.

    It is called with this rank's part of the array, any number of times, and then freed. The part has to be contiguous,
    as the subarrays count from its beginning. All ranks call it together.
    """

    def __init__(self, shape, old, new):
        """Makes the datatypes of the blocks that this rank sends to each rank, and receives from it.

        It sends a rank what lies in that rank's part of the new axis, and receives what lies in that rank's part of the
        old one. So what one rank sends has as many elements as the other one receives.
        """
        begin, end = bounds_of(shape[old], RANK)
        self.before = [n if axis != old else end - begin for axis, n in enumerate(shape)]
        begin, end = bounds_of(shape[new], RANK)
        self.after = [n if axis != new else end - begin for axis, n in enumerate(shape)]
        self.sent = [self._block(self.before, new, bounds_of(shape[new], rank)) for rank in range(SIZE)]
        self.received = [self._block(self.after, old, bounds_of(shape[old], rank)) for rank in range(SIZE)]

    @staticmethod
    def _block(shape, axis, bounds):
        """Returns the datatype of the subarray within these bounds of an axis. None if it is empty, as MPI has none."""
        starts = [0] * len(shape)
        sizes = list(shape)
        starts[axis], sizes[axis] = bounds[0], bounds[1] - bounds[0]
        if 0 in sizes:
            return None
        return MPI.DOUBLE_COMPLEX.Create_subarray(shape, sizes, starts).Commit()

    @staticmethod
    def _message(array, blocks):
        """Returns what Alltoallw takes for one side: the buffer, counts, displacements and types."""
        counts = [0 if block is None else 1 for block in blocks]
        types = [MPI.BYTE if block is None else block for block in blocks]
        return [array, counts, [0] * SIZE, types]

    def __call__(self, array):
        """Moves the array to the new distribution, and returns this rank's part of it."""
        result = xp.empty(self.after, dtype=complex)
        finish_work()
        COMM.Alltoallw(self._message(array, self.sent), self._message(result, self.received))
        return result

    def free(self):
        """Frees the datatypes."""
        for block in self.sent + self.received:
            if block is not None:
                block.Free()


def main():
    """Transforms an array, compares with NumPy's transform, and times the transposition."""
    numbers = [argument for argument in sys.argv[1:] if argument != "--cpu"]
    length = int(numbers[0]) if numbers else 60
    shape = (length, length + 3, length + 1)
    choose_device()
    random = numpy.random.RandomState(5)  # the same array on all ranks
    whole = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    transpose = Transposition(shape, 0, 1)

    def transform(array):
        """Returns the transform of a distributed array: of two axes, and after a transposition of the third one."""
        array = xp.fft.fftn(array, axes=(1, 2))
        return xp.fft.fft(transpose(array), axis=0)

    begin, end = bounds_of(shape[0], RANK)
    slab = xp.ascontiguousarray(xp.asarray(whole[begin:end]))
    result = transform(slab)
    begin, end = bounds_of(shape[1], RANK)
    expected = xp.asarray(numpy.fft.fftn(whole)[:, begin:end])
    largest = float(abs(expected).max()) if expected.size else 1.0
    difference = float(abs(result - expected).max()) / largest if expected.size else 0.0
    difference = COMM.allreduce(difference, MPI.MAX)

    finish_work()
    COMM.Barrier()
    start = time.perf_counter()
    for _ in range(10):
        transpose(slab)
    elapsed = COMM.allreduce((time.perf_counter() - start) / 10, MPI.MAX)
    transpose.free()
    if RANK == 0:
        print(f"fft: {SIZE} ranks ({xp.__name__}), {shape[0]}x{shape[1]}x{shape[2]}, one transposition takes "
              f"{elapsed * 1e6:.0f} us, within {difference:.1e} of NumPy's transform: "
              f"{'right' if difference < 1e-12 else 'WRONG'}")
    sys.exit(0 if difference < 1e-12 else 1)


main()
