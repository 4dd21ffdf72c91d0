"""MPI's collectives in the order of a GPU stream, for programs with mpi4py.

    from mpi4py import MPI
    import mpix_mscclpp

    comm = mpix_mscclpp.Queued(MPI.COMM_WORLD)
    comm.Allreduce(MPI.IN_PLACE, gradients, MPI.SUM, stream=stream)

The methods of Queued have the names and arguments of the methods of mpi4py's communicators that begin with a capital
letter, followed by `stream`. A call queues its work in this stream and returns: it waits neither for other ranks nor
for the GPU. mpix_mscclpp.h and docs/gpu-synchronous.md describe which calls are queued, which are collective and what
is not allowed.

A buffer is an object with __cuda_array_interface__ (CuPy, PyTorch, Numba), a tensor of PyTorch, an array of NumPy or
another object with Python's buffer interface. Pass the buffer alone, or a list of the buffer with counts, displacements
and MPI types, as for mpi4py. A buffer has to be contiguous. It must not be freed until the work has ended. CuPy and
PyTorch ensure this for arrays that are used in the stream in which they were made, and this module ensures it for
streams of the host twin.

A stream is a stream of CuPy, PyTorch or Numba, an object with __cuda_stream__, the address of a cudaStream_t as an
integer, or a HostStream. None means the current stream of the framework of the first buffer on a GPU, or the default
stream if there is no such buffer.

Persistent requests are made by methods with `_init` after the name, and the same arguments without the stream:

    request = comm.Allreduce_init(MPI.IN_PLACE, gradients, MPI.SUM)
    request.attach_stream(stream)
    request.prepare()
    for step in range(steps):
        request.start()

Errors are raised as MPI.Exception, if the communicator's error handler returns, which is the default of mpi4py.
"""
from ._queued import Queued
from ._requests import Request
from ._stream import Graph, HostStream

__all__ = ["Graph", "HostStream", "Queued", "Request"]
