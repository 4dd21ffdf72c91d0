"""MPI's collectives in the order of a GPU stream, for programs with mpi4py.

    from mpi4py import MPI
    import mpix_mscclpp

    comm = mpix_mscclpp.Queued(MPI.COMM_WORLD)
    comm.Allreduce(MPI.IN_PLACE, gradients, MPI.SUM, stream=stream)

The methods of Queued are those of mpi4py's communicators with upper case, their arguments are mpi4py's, and `stream`
comes last. A call queues its work there and returns: it waits for no rank and not for the GPU. mpix_mscclpp.h and
docs/gpu-synchronous.md say what is queued, what is collective and what must not be done.

A buffer is whatever has __cuda_array_interface__ (CuPy, PyTorch, Numba), a tensor of PyTorch, an array of NumPy or
another object with Python's buffer interface. It stands alone or in a list with counts, displacements and MPI types, as
for mpi4py. It has to be contiguous. It must stay alive until the work has ended: arrays of CuPy and PyTorch do, if they
are used in the stream that they were made in; for streams of the host twin this module sees to it.

A stream is one of CuPy, of PyTorch, of Numba, an object with __cuda_stream__, the address of a cudaStream_t as an
integer, or a HostStream. None is the current stream of the framework that the first buffer on a GPU belongs to, and
the default stream where there is none.

Persistent requests are made by methods with `_init` behind the name, and the same arguments without the stream:

    request = comm.Allreduce_init(MPI.IN_PLACE, gradients, MPI.SUM)
    request.attach_stream(stream)
    request.prepare()
    for step in range(steps):
        request.start()

Errors are raised as MPI.Exception, if the communicator's error handler returns, as mpi4py sees to.
"""
from ._queued import Queued
from ._requests import Request
from ._stream import Graph, HostStream

__all__ = ["Graph", "HostStream", "Queued", "Request"]
