"""The collectives."""
import ctypes

from mpi4py import MPI

from ._buffer import Message, integers
from ._library import COUNT, INT, POINTER, function, handle
from ._stream import HostStream, address_of

_END = (POINTER, POINTER)  # communicator and stream
_SEND = (POINTER, COUNT, POINTER)
_BLOCKS = (*_SEND, *_SEND)
_REDUCE = (POINTER, POINTER, COUNT, POINTER, POINTER)
_VECTOR = (POINTER, POINTER, POINTER, POINTER)

_allreduce = function("allreduce_enqueue", *_REDUCE, *_END)
_barrier = function("barrier_enqueue", *_END)
_bcast = function("bcast_enqueue", *_SEND, INT, *_END)
_reduce = function("reduce_enqueue", *_REDUCE, INT, *_END)
_allgather = function("allgather_enqueue", *_BLOCKS, *_END)
_allgatherv = function("allgatherv_enqueue", *_SEND, *_VECTOR, *_END)
_gather = function("gather_enqueue", *_BLOCKS, INT, *_END)
_gatherv = function("gatherv_enqueue", *_SEND, *_VECTOR, INT, *_END)
_scatter = function("scatter_enqueue", *_BLOCKS, INT, *_END)
_scatterv = function("scatterv_enqueue", *_VECTOR, *_SEND, INT, *_END)
_alltoall = function("alltoall_enqueue", *_BLOCKS, *_END)
_alltoallv = function("alltoallv_enqueue", *_VECTOR, *_VECTOR, *_END)
_alltoallw = function("alltoallw_enqueue", *_VECTOR, *_VECTOR, *_END)
_reduce_scatter = function("reduce_scatter_enqueue", POINTER, POINTER, POINTER, POINTER, POINTER, *_END)
_reduce_scatter_block = function("reduce_scatter_block_enqueue", *_REDUCE, *_END)
_scan = function("scan_enqueue", *_REDUCE, *_END)
_exscan = function("exscan_enqueue", *_REDUCE, *_END)
_query = function("query", POINTER, INT, POINTER)
_get_async_error = function("get_async_error", POINTER, POINTER, POINTER, INT)

QUEUED, WAITED = 1, 2  # MPIX_MSCCLPP_QUERY_...


class Queued:
    """A communicator of mpi4py, whose collectives are queued in streams. The communicator stays mpi4py's to free."""

    def __init__(self, comm):
        if not isinstance(comm, MPI.Comm):
            raise TypeError(f"Queued takes a communicator of mpi4py, not '{type(comm).__name__}'")
        self.comm = comm

    # What the calls have in common.

    def _end(self, stream, *messages):
        """The last arguments of a call. A stream of the host twin keeps the buffers."""
        things = [message.array.thing for message in messages if message.array is not None]
        if isinstance(stream, HostStream):
            stream.keep(*things)
        return handle(self.comm), address_of(stream, things)

    def _ranks(self):
        """Blocks of a buffer: those of the other group, if there are two."""
        return self.comm.Get_remote_size() if self.comm.Is_inter() else self.comm.Get_size()

    @staticmethod
    def _block(message, blocks=1):
        return message.address, message.count(blocks), handle(message.type)

    def _vector(self, message):
        """Address, counts, displacements, type. The arrays are read before the call returns."""
        if message.in_place or message.address is None:
            return message.address, None, None, handle(MPI.BYTE)
        counts, displs = message.vector(self._ranks())
        return message.address, ctypes.addressof(counts), ctypes.addressof(displs), handle(message.type), counts, displs

    def _reduction(self, sendbuf, recvbuf, blocks=1):
        """Both sides, the count of the result, and the type."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        leading = receive if receive.array is not None or send.in_place or send.array is None else send
        count = leading.count(blocks if send.in_place else 1)
        if leading is receive and send.array is not None:
            if send.type != receive.type:
                raise ValueError("both buffers of a reduction are to have the same MPI type")
            if send.count(blocks) != count:
                raise ValueError(f"the operand has {send.count(blocks)} elements a block, and the result {count}")
        return send, receive, count, handle(leading.type)

    def _reduce_all(self, function_, sendbuf, recvbuf, op, stream):
        send, receive, count, datatype = self._reduction(sendbuf, recvbuf)
        function_(send.address, receive.address, count, datatype, handle(op), *self._end(stream, receive, send))

    # The collectives.

    def Allreduce(self, sendbuf, recvbuf, op=MPI.SUM, *, stream=None):
        self._reduce_all(_allreduce, sendbuf, recvbuf, op, stream)

    def Scan(self, sendbuf, recvbuf, op=MPI.SUM, *, stream=None):
        self._reduce_all(_scan, sendbuf, recvbuf, op, stream)

    def Exscan(self, sendbuf, recvbuf, op=MPI.SUM, *, stream=None):
        self._reduce_all(_exscan, sendbuf, recvbuf, op, stream)

    def Reduce(self, sendbuf, recvbuf, op=MPI.SUM, root=0, *, stream=None):
        send, receive, count, datatype = self._reduction(sendbuf, recvbuf)
        _reduce(send.address, receive.address, count, datatype, handle(op), root, *self._end(stream, send, receive))

    def Reduce_scatter_block(self, sendbuf, recvbuf, op=MPI.SUM, *, stream=None):
        send, receive, count, datatype = self._reduction(sendbuf, recvbuf, self._ranks())
        _reduce_scatter_block(send.address, receive.address, count, datatype, handle(op),
                              *self._end(stream, receive, send))

    def Reduce_scatter(self, sendbuf, recvbuf, recvcounts, op=MPI.SUM, *, stream=None):
        """Unlike mpi4py's, this needs `recvcounts`, as it must not ask the other ranks."""
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        counts = integers(recvcounts, self._ranks(), "counts")
        leading = receive if send.in_place else send
        _reduce_scatter(send.address, receive.address, ctypes.addressof(counts), handle(leading.type), handle(op),
                        *self._end(stream, receive, send))

    def Barrier(self, *, stream=None):
        _barrier(*self._end(stream))

    def Bcast(self, buf, root=0, *, stream=None):
        message = Message(buf, writes=root not in (self.comm.Get_rank(), MPI.ROOT))
        _bcast(*self._block(message), root, *self._end(stream, message))

    def Allgather(self, sendbuf, recvbuf, *, stream=None):
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        _allgather(*self._block(send), *self._block(receive, self._ranks()), *self._end(stream, receive, send))

    def Allgatherv(self, sendbuf, recvbuf, *, stream=None):
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        places = self._vector(receive)
        _allgatherv(*self._block(send), *places[:4], *self._end(stream, receive, send))

    def Gather(self, sendbuf, recvbuf, root=0, *, stream=None):
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        _gather(*self._block(send), *self._block(receive, self._ranks()), root, *self._end(stream, send, receive))

    def Gatherv(self, sendbuf, recvbuf, root=0, *, stream=None):
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        places = self._vector(receive)
        _gatherv(*self._block(send), *places[:4], root, *self._end(stream, send, receive))

    def Scatter(self, sendbuf, recvbuf, root=0, *, stream=None):
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        _scatter(*self._block(send, self._ranks()), *self._block(receive), root, *self._end(stream, receive, send))

    def Scatterv(self, sendbuf, recvbuf, root=0, *, stream=None):
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        places = self._vector(send)
        _scatterv(*places[:4], *self._block(receive), root, *self._end(stream, receive, send))

    def Alltoall(self, sendbuf, recvbuf, *, stream=None):
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        ranks = self._ranks()
        _alltoall(*self._block(send, ranks), *self._block(receive, ranks), *self._end(stream, receive, send))

    def Alltoallv(self, sendbuf, recvbuf, *, stream=None):
        send, receive = Message(sendbuf), Message(recvbuf, writes=True)
        there, here = self._vector(send), self._vector(receive)
        _alltoallv(*there[:4], *here[:4], *self._end(stream, receive, send))

    def Alltoallw(self, sendbuf, recvbuf, *, stream=None):
        """Buffers are [array, counts, displacements in bytes, types]."""
        sides = []
        messages = Message(sendbuf), Message(recvbuf, writes=True)
        for message in messages:
            if message.in_place:
                sides.append((message.address, None, None, None))
                continue
            counts = integers(message.counts, self._ranks(), "counts")
            displs = integers(message.displs, self._ranks(), "displacements")
            if not isinstance(message.type, (list, tuple)) or len(message.type) != self._ranks():
                raise ValueError(f"Alltoallw needs a list of {self._ranks()} types")
            types = (ctypes.c_void_p * self._ranks())(*(handle(one) for one in message.type))
            sides.append((message.address, counts, displs, types))
        _alltoallw(*sides[0], *sides[1], *self._end(stream, messages[1], messages[0]))

    # What became of them.

    def Get_async_error(self):
        """An MPI error code, MPI.SUCCESS if nothing has failed, and a text. Never waits."""
        code, text = ctypes.c_int(), ctypes.create_string_buffer(320)
        _get_async_error(handle(self.comm), ctypes.addressof(code), ctypes.addressof(text), len(text))
        return code.value, text.value.decode()

    def _asked(self, what):
        value = ctypes.c_longlong()
        _query(handle(self.comm), what, ctypes.addressof(value))
        return value.value

    def Get_queued(self):
        """How many calls of this process were queued."""
        return self._asked(QUEUED)

    def Get_waited(self):
        """How many could not be queued, and so waited for the stream and made the plain MPI call."""
        return self._asked(WAITED)
