"""Persistent requests."""
import ctypes

from ._library import INT, POINTER, function
from ._stream import address_of

_attach_stream = function("attach_stream", POINTER, POINTER)
_attach_kernels = function("attach_kernels", POINTER, POINTER)
_attach_graph = function("attach_graph", POINTER, POINTER)
_get_node = function("request_get_node", POINTER, POINTER)
_get_device = function("request_get_device", POINTER, ctypes.c_uint, POINTER, ctypes.c_size_t)
_prepare = function("prepare", INT, POINTER)
_start = function("start", INT, POINTER)
_complete = function("complete", INT, POINTER)
_pready = function("pready", INT, INT, POINTER)
_parrived = function("parrived", POINTER, INT, POINTER)
_test = function("test", POINTER, POINTER)
_wait = function("wait", INT, POINTER)
_free = function("request_free", POINTER)


class Request:
    """A call that is prepared once and started often. It keeps its buffers alive until it is freed.

    Requests are made by `Queued.Allreduce_init` and similar methods. Attach a request to a stream, to kernels or to a
    graph, and then call `prepare`, which is collective. mpix_mscclpp_requests.h describes each function. All methods
    raise an MPI.Exception for an error code of the library, and ValueError after the request was freed.

    init: the C function that makes the request. arguments: its arguments except for the last one, the address of the
    handle. buffers: the objects that own the memory of the call. They live at least as long as the request. The attach
    functions use them to find the stream if the caller names none.
    """

    def __init__(self, init, arguments, buffers):
        self._pointer = ctypes.c_void_p()
        self._buffers = buffers
        init(*arguments, ctypes.addressof(self._pointer))

    @property
    def ptr(self):
        """The request's handle in C. Raises ValueError if it has been freed."""
        if not self._pointer.value:
            raise ValueError("the request has been freed")
        return self._pointer.value

    def _call_on_list(self, function_):
        """Calls a C function that takes a list of requests, with a list that contains only this request."""
        self.ptr  # raises if it has been freed
        function_(1, ctypes.addressof(self._pointer))

    def attach_stream(self, stream=None):
        """Attaches the request to a stream: each start makes the call in the order of this stream."""
        _attach_stream(self.ptr, address_of(stream, self._buffers))

    def attach_kernels(self, stream=None):
        """Attaches the request to kernels: kernels in this stream release the executions that are started."""
        _attach_kernels(self.ptr, address_of(stream, self._buffers))

    def attach_graph(self, graph):
        """Attaches the request to a graph: each start adds a node to it.

        graph: the address of a cudaGraph_t, or a Graph of the host twin.
        """
        pointer = getattr(graph, "pointer", graph)
        _attach_graph(self.ptr, getattr(pointer, "value", pointer))

    def get_node(self):
        """Returns the address of the node that the latest start has added, or None on the host twin."""
        node = ctypes.c_void_p()
        _get_node(self.ptr, ctypes.addressof(node))
        return node.value

    def get_device(self, abi, size):
        """Returns the handle for kernels as bytes.

        abi: MPIX_MSCCLPP_DEVICE_ABI of the header with which the kernels were compiled. size: bytes of the handle.
        """
        handle = ctypes.create_string_buffer(size)
        _get_device(self.ptr, abi, ctypes.addressof(handle), size)
        return handle.raw

    def prepare(self):
        """Makes the objects that executions need. Collective."""
        self._call_on_list(_prepare)

    def start(self):
        """Starts an execution."""
        self._call_on_list(_start)

    def complete(self):
        """Makes all later work in the stream of attach_kernels wait for the executions."""
        self._call_on_list(_complete)

    def pready(self, low=0, high=None):
        """Marks partitions `low` to `high` ready from the host. If `high` is None, marks only `low`."""
        _pready(low, low if high is None else high, self.ptr)

    def parrived(self, partition):
        """Returns whether a partition of the latest start has arrived."""
        flag = ctypes.c_int()
        _parrived(self.ptr, partition, ctypes.addressof(flag))
        return flag.value != 0

    def test(self):
        """Returns whether all executions have ended."""
        flag = ctypes.c_int()
        _test(self.ptr, ctypes.addressof(flag))
        return flag.value != 0

    def wait(self):
        """Waits on the host until all executions have ended."""
        self._call_on_list(_wait)

    def free(self):
        """Frees the request, which then no longer keeps its buffers alive. Collective if kernels release it."""
        self.ptr  # raises if it has been freed
        _free(ctypes.addressof(self._pointer))
        self._buffers = []
