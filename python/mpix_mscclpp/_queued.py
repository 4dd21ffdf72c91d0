"""The class Queued: MPI's collectives, queued in streams or as persistent requests."""
import ctypes

from mpi4py import MPI

from ._buffer import Message, integers
from ._library import COUNT, INT, POINTER, function, handle
from ._requests import Request
from ._stream import HostStream, address_of

# Types of arguments in C.
_END = (POINTER, POINTER)  # communicator, and stream or address of the request
_SEND = (POINTER, COUNT, POINTER)  # buffer, count, type
_BLOCKS = (*_SEND, *_SEND)
_REDUCE = (POINTER, POINTER, COUNT, POINTER, POINTER)  # both buffers, count, type, operation
_VECTOR = (POINTER, POINTER, POINTER, POINTER)  # buffer, counts, displacements, type


class _Collective:
    """The C functions of a collective: enqueue, which queues it, and init, which makes a persistent request.

    types: the types of the arguments before the communicator.
    """

    def __init__(self, name, *types):
        self.enqueue = function(name + "_enqueue", *types, *_END)
        self.init = function(name + "_init", *types, *_END)


_allreduce = _Collective("allreduce", *_REDUCE)
_barrier = _Collective("barrier")
_bcast = _Collective("bcast", *_SEND, INT)
_reduce = _Collective("reduce", *_REDUCE, INT)
_allgather = _Collective("allgather", *_BLOCKS)
_allgatherv = _Collective("allgatherv", *_SEND, *_VECTOR)
_gather = _Collective("gather", *_BLOCKS, INT)
_gatherv = _Collective("gatherv", *_SEND, *_VECTOR, INT)
_scatter = _Collective("scatter", *_BLOCKS, INT)
_scatterv = _Collective("scatterv", *_VECTOR, *_SEND, INT)
_alltoall = _Collective("alltoall", *_BLOCKS)
_alltoallv = _Collective("alltoallv", *_VECTOR, *_VECTOR)
_alltoallw = _Collective("alltoallw", *_VECTOR, *_VECTOR)
_reduce_scatter = _Collective("reduce_scatter", POINTER, POINTER, POINTER, POINTER, POINTER)
_reduce_scatter_block = _Collective("reduce_scatter_block", *_REDUCE)
_scan = _Collective("scan", *_REDUCE)
_exscan = _Collective("exscan", *_REDUCE)
_neighbor_allgather = _Collective("neighbor_allgather", *_BLOCKS)
_neighbor_allgatherv = _Collective("neighbor_allgatherv", *_SEND, *_VECTOR)
_neighbor_alltoall = _Collective("neighbor_alltoall", *_BLOCKS)
_neighbor_alltoallv = _Collective("neighbor_alltoallv", *_VECTOR, *_VECTOR)
_neighbor_alltoallw = _Collective("neighbor_alltoallw", *_VECTOR, *_VECTOR)
_pallreduce_init = function("pallreduce_init", POINTER, POINTER, INT, COUNT, POINTER, POINTER, *_END)
_psend_init = function("psend_init", POINTER, INT, COUNT, POINTER, INT, INT, *_END)
_precv_init = function("precv_init", POINTER, INT, COUNT, POINTER, INT, INT, *_END)
_query = function("query", POINTER, INT, POINTER)
_get_async_error = function("get_async_error", POINTER, POINTER, POINTER, INT)

_AS_REQUEST = object()  # in place of a stream: the call becomes a request

QUEUED, WAITED = 1, 2  # MPIX_MSCCLPP_QUERY_...


class Queued:
    """A communicator of mpi4py whose collectives are queued in streams. It is still freed by mpi4py.

    The constructor raises TypeError if `comm` is no communicator of mpi4py. All methods raise an MPI.Exception if the
    library returns an error code.
    """

    def __init__(self, comm):
        if not isinstance(comm, MPI.Comm):
            raise TypeError(f"Queued takes a communicator of mpi4py, not '{type(comm).__name__}'")
        self.comm = comm

    # Functions that the calls share.

    def _call(self, collective, arguments, messages, stream):
        """Queues a call and returns None, or makes a request from the call and returns the request.

        messages: the messages of both sides. If `stream` is None, the first message on a GPU determines the stream. A
        request and a stream of the host twin keep the buffers alive; for other streams the caller has to keep them.
        """
        buffers = self._buffers(*messages)
        if stream is _AS_REQUEST:
            return Request(collective.init, (*arguments, handle(self.comm)), buffers)
        if isinstance(stream, HostStream):
            stream.keep(*buffers)
        collective.enqueue(*arguments, handle(self.comm), address_of(stream, buffers))
        return None

    @staticmethod
    def _buffers(*messages):
        """Returns the objects that own the memory of the messages. Messages without their own memory are left out."""
        return [message.array.owner for message in messages if message.array is not None]

    def _block_count(self):
        """Returns how many blocks a buffer has: one for each rank, or each remote rank in an inter-communicator."""
        return self.comm.Get_remote_size() if self.comm.Is_inter() else self.comm.Get_size()

    @staticmethod
    def _block(message, blocks=1):
        """Returns the address, count and type of a message in `blocks` equal blocks, as arguments of a C function."""
        return message.address, message.count(blocks), handle(message.type)

    def _edges(self):
        """Returns how many blocks this rank sends to its neighbours, and how many it receives from them.

        Raises TypeError if the communicator has no topology.
        """
        if not isinstance(self.comm, MPI.Topocomm):
            raise TypeError("neighbourhood collectives need a communicator with a topology, "
                            f"not '{type(self.comm).__name__}'")
        return self.comm.outdegree, self.comm.indegree

    def _vector(self, message, blocks=None):
        """Returns the address, counts, displacements and type of a message in blocks of different sizes.

        blocks: the number of blocks; None: one for each rank.

        Counts and displacements are the addresses of arrays. The arrays themselves follow after these four values, so
        that they live as long as the caller keeps the result, which is until the call has read them. If a message is in
        place, or MPI does not read it on this rank, MPI uses at most its address: there are no arrays, and the type is
        a placeholder.
        """
        if message.in_place or message.address is None:
            return message.address, None, None, handle(MPI.BYTE)
        counts, displs = message.vector(self._block_count() if blocks is None else blocks)
        return message.address, ctypes.addressof(counts), ctypes.addressof(displs), handle(message.type), counts, displs

    def _reduction(self, sendbuf, recvbuf, blocks=1):
        """Returns both sides of a reduction, the count of the result, and the type.

        blocks: how many times as long as the result the operand is. Raises ValueError if the two sides differ in their
        types, or if the numbers of elements do not fit together.
        """
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        # The side that determines the number of elements: the result or, on a rank that gets no result, the operand. In
        # place, the buffer of the result contains the operand, and so all blocks.
        leading = receive if receive.array is not None or send.in_place or send.array is None else send
        count = leading.count(blocks if send.in_place else 1)
        if leading is receive and send.array is not None:
            if send.type != receive.type:
                raise ValueError("both buffers of a reduction are to have the same MPI type")
            if send.count(blocks) != count:
                raise ValueError(f"the operand has {send.count(blocks)} elements a block, and the result {count}")
        return send, receive, count, handle(leading.type)

    def _reduce_all(self, collective, sendbuf, recvbuf, op, stream):
        """Queues a reduction in which all ranks get a result."""
        send, receive, count, datatype = self._reduction(sendbuf, recvbuf)
        return self._call(collective, (send.address, receive.address, count, datatype, handle(op)), (receive, send),
                          stream)

    # The collectives.

    def Allreduce(self, sendbuf, recvbuf, op=MPI.SUM, *, stream=None):
        """As MPI.Comm.Allreduce, in the order of the stream."""
        return self._reduce_all(_allreduce, sendbuf, recvbuf, op, stream)

    def Scan(self, sendbuf, recvbuf, op=MPI.SUM, *, stream=None):
        """As MPI.Comm.Scan, in the order of the stream."""
        return self._reduce_all(_scan, sendbuf, recvbuf, op, stream)

    def Exscan(self, sendbuf, recvbuf, op=MPI.SUM, *, stream=None):
        """As MPI.Comm.Exscan, in the order of the stream."""
        return self._reduce_all(_exscan, sendbuf, recvbuf, op, stream)

    def Reduce(self, sendbuf, recvbuf, op=MPI.SUM, root=0, *, stream=None):
        """As MPI.Comm.Reduce, in the order of the stream."""
        send, receive, count, datatype = self._reduction(sendbuf, recvbuf)
        return self._call(_reduce, (send.address, receive.address, count, datatype, handle(op), root),
                          (send, receive), stream)

    def Reduce_scatter_block(self, sendbuf, recvbuf, op=MPI.SUM, *, stream=None):
        """As MPI.Comm.Reduce_scatter_block, in the order of the stream."""
        send, receive, count, datatype = self._reduction(sendbuf, recvbuf, self._block_count())
        return self._call(_reduce_scatter_block, (send.address, receive.address, count, datatype, handle(op)),
                          (receive, send), stream)

    def Reduce_scatter(self, sendbuf, recvbuf, recvcounts, op=MPI.SUM, *, stream=None):
        """As MPI.Comm.Reduce_scatter, in the order of the stream.

        Unlike in mpi4py, `recvcounts` is required, because this method must not communicate with the other ranks. The
        counts are not compared with the sizes of the buffers.
        """
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        counts = integers(recvcounts, self._block_count(), "counts")
        leading = receive if send.in_place else send
        arguments = (send.address, receive.address, ctypes.addressof(counts), handle(leading.type), handle(op))
        return self._call(_reduce_scatter, arguments, (receive, send), stream)

    def Barrier(self, *, stream=None):
        """As MPI.Comm.Barrier, in the order of the stream."""
        return self._call(_barrier, (), (), stream)

    def Bcast(self, buf, root=0, *, stream=None):
        """As MPI.Comm.Bcast, in the order of the stream. The root's buffer may be read-only."""
        message = Message(buf, writes=root not in (self.comm.Get_rank(), MPI.ROOT))
        return self._call(_bcast, (*self._block(message), root), (message,), stream)

    def Allgather(self, sendbuf, recvbuf, *, stream=None):
        """As MPI.Comm.Allgather, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        return self._call(_allgather, (*self._block(send), *self._block(receive, self._block_count())),
                          (receive, send), stream)

    def Allgatherv(self, sendbuf, recvbuf, *, stream=None):
        """As MPI.Comm.Allgatherv, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        receive_blocks = self._vector(receive)
        return self._call(_allgatherv, (*self._block(send), *receive_blocks[:4]), (receive, send), stream)

    def Gather(self, sendbuf, recvbuf, root=0, *, stream=None):
        """As MPI.Comm.Gather, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        return self._call(_gather, (*self._block(send), *self._block(receive, self._block_count()), root),
                          (send, receive), stream)

    def Gatherv(self, sendbuf, recvbuf, root=0, *, stream=None):
        """As MPI.Comm.Gatherv, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        receive_blocks = self._vector(receive)
        return self._call(_gatherv, (*self._block(send), *receive_blocks[:4], root), (send, receive), stream)

    def Scatter(self, sendbuf, recvbuf, root=0, *, stream=None):
        """As MPI.Comm.Scatter, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        return self._call(_scatter, (*self._block(send, self._block_count()), *self._block(receive), root),
                          (receive, send), stream)

    def Scatterv(self, sendbuf, recvbuf, root=0, *, stream=None):
        """As MPI.Comm.Scatterv, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        send_blocks = self._vector(send)
        return self._call(_scatterv, (*send_blocks[:4], *self._block(receive), root), (receive, send), stream)

    def Alltoall(self, sendbuf, recvbuf, *, stream=None):
        """As MPI.Comm.Alltoall, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        ranks = self._block_count()
        return self._call(_alltoall, (*self._block(send, ranks), *self._block(receive, ranks)), (receive, send), stream)

    def Alltoallv(self, sendbuf, recvbuf, *, stream=None):
        """As MPI.Comm.Alltoallv, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        send_blocks, receive_blocks = self._vector(send), self._vector(receive)
        return self._call(_alltoallv, (*send_blocks[:4], *receive_blocks[:4]), (receive, send), stream)

    def Alltoallw(self, sendbuf, recvbuf, *, stream=None):
        """As MPI.Comm.Alltoallw, in the order of the stream.

        Buffers are [array, counts, displacements in bytes, types].
        """
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        ranks = self._block_count()
        return self._call(_alltoallw, (*self._typed(send, ranks), *self._typed(receive, ranks)), (receive, send),
                          stream)

    @staticmethod
    def _typed(message, blocks, c_type=ctypes.c_int):
        """Returns the address, counts, displacements and types of a message whose blocks have different types.

        c_type: the C type of the displacements. Raises ValueError unless there are a count, a displacement and a type
        for every block.

        The last three values are arrays, not addresses: they live as long as the caller keeps the result. In place they
        are None, since MPI does not read them.
        """
        if message.in_place:
            return message.address, None, None, None
        if message.counts is None or message.displs is None:
            raise ValueError("the call needs [array, counts, displacements in bytes, types]")
        counts = integers(message.counts, blocks, "counts")
        displs = integers(message.displs, blocks, "displacements", c_type)
        if not isinstance(message.type, (list, tuple)) or len(message.type) != blocks:
            raise ValueError(f"the call needs a list of {blocks} types")
        types = (ctypes.c_void_p * blocks)(*(handle(datatype) for datatype in message.type))
        return message.address, counts, displs, types

    # Neighbourhood collectives, on communicators with a topology. A rank that sends nothing, or receives nothing, has
    # no blocks on that side. MPI then does not read the count, and `or 1` only avoids a division by 0 in Message.count.

    def Neighbor_allgather(self, sendbuf, recvbuf, *, stream=None):
        """As MPI.Topocomm.Neighbor_allgather, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        in_degree = self._edges()[1]
        return self._call(_neighbor_allgather, (*self._block(send), *self._block(receive, in_degree or 1)),
                          (receive, send), stream)

    def Neighbor_allgatherv(self, sendbuf, recvbuf, *, stream=None):
        """As MPI.Topocomm.Neighbor_allgatherv, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        receive_blocks = self._vector(receive, self._edges()[1])
        return self._call(_neighbor_allgatherv, (*self._block(send), *receive_blocks[:4]), (receive, send), stream)

    def Neighbor_alltoall(self, sendbuf, recvbuf, *, stream=None):
        """As MPI.Topocomm.Neighbor_alltoall, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        out_degree, in_degree = self._edges()
        arguments = (*self._block(send, out_degree or 1), *self._block(receive, in_degree or 1))
        return self._call(_neighbor_alltoall, arguments, (receive, send), stream)

    def Neighbor_alltoallv(self, sendbuf, recvbuf, *, stream=None):
        """As MPI.Topocomm.Neighbor_alltoallv, in the order of the stream."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        out_degree, in_degree = self._edges()
        send_blocks, receive_blocks = self._vector(send, out_degree), self._vector(receive, in_degree)
        return self._call(_neighbor_alltoallv, (*send_blocks[:4], *receive_blocks[:4]), (receive, send), stream)

    def Neighbor_alltoallw(self, sendbuf, recvbuf, *, stream=None):
        """As MPI.Topocomm.Neighbor_alltoallw, in the order of the stream.

        Buffers are [array, counts, displacements in bytes, types].
        """
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        out_degree, in_degree = self._edges()
        sides = (*self._typed(send, out_degree, ctypes.c_ssize_t), *self._typed(receive, in_degree, ctypes.c_ssize_t))
        return self._call(_neighbor_alltoallw, sides, (receive, send), stream)

    # Persistent requests: `comm.Allreduce_init(...)` takes the arguments of `comm.Allreduce`, without the stream.

    def __getattr__(self, name):
        """Makes the functions <collective>_init, which return a persistent request.

        Python calls this method for missing names only. Raises AttributeError for all other names.
        """
        collective = name[:-len("_init")] if name.endswith("_init") else ""
        if collective not in _COLLECTIVES:
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        method = getattr(self, collective)
        return lambda *arguments, **keywords: method(*arguments, stream=_AS_REQUEST, **keywords)

    def Pallreduce_init(self, sendbuf, recvbuf, partitions, op=MPI.SUM):
        """Makes a request for an all-reduce of `partitions` equal partitions, which kernels release one by one.

        The buffer of the result determines the type and the number of elements. Raises ValueError if the partitions
        cannot be equal.
        """
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        arguments = (send.address, receive.address, partitions, receive.count(partitions), handle(receive.type),
                     handle(op), handle(self.comm))
        return Request(_pallreduce_init, arguments, self._buffers(receive, send))

    def Psend_init(self, buf, partitions, dest, tag=0):
        """Makes a request for the sending side of a message of `partitions` equal partitions."""
        message = Message(buf)
        return Request(_psend_init, (message.address, partitions, message.count(partitions), handle(message.type), dest,
                                     tag, handle(self.comm)), self._buffers(message))

    def Precv_init(self, buf, partitions, source, tag=0):
        """Makes a request for the receiving side of a message of `partitions` equal partitions."""
        message = Message(buf, writes=True)
        return Request(_precv_init, (message.address, partitions, message.count(partitions), handle(message.type),
                                     source, tag, handle(self.comm)), self._buffers(message))

    # The state of the queued calls.

    def Get_async_error(self):
        """Returns an MPI error code and a text. The code is MPI.SUCCESS if no queued call has failed. Never waits."""
        code, text = ctypes.c_int(), ctypes.create_string_buffer(320)
        _get_async_error(handle(self.comm), ctypes.addressof(code), ctypes.addressof(text), len(text))
        return code.value, text.value.decode()

    def _counter(self, counter):
        """Returns the value of a counter of the communicator. counter: QUEUED or WAITED."""
        value = ctypes.c_longlong()
        _query(handle(self.comm), counter, ctypes.addressof(value))
        return value.value

    def Get_queued(self):
        """Returns how many calls of this process on the communicator were queued."""
        return self._counter(QUEUED)

    def Get_waited(self):
        """Returns how many calls could not be queued, and so waited for the stream and made the plain MPI call."""
        return self._counter(WAITED)


_COLLECTIVES = {"Allreduce", "Scan", "Exscan", "Reduce", "Reduce_scatter_block", "Reduce_scatter", "Barrier", "Bcast",
                "Allgather", "Allgatherv", "Gather", "Gatherv", "Scatter", "Scatterv", "Alltoall", "Alltoallv",
                "Alltoallw", "Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv",
                "Neighbor_alltoallw"}
