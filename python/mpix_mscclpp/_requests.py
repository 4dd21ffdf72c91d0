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
    """A call that is prepared once and started often. It keeps its buffers until it is freed.

    Made by `Queued.Allreduce_init` and the like, and attached to a stream, to kernels or to a graph before `prepare`,
    which is collective. mpix_mscclpp_requests.h says what each function does.
    """

    def __init__(self, make, arguments, kept):
        self._pointer = ctypes.c_void_p()
        self._kept = kept
        make(*arguments, ctypes.addressof(self._pointer))

    @property
    def ptr(self):
        """Its handle in C."""
        if not self._pointer.value:
            raise ValueError("the request has been freed")
        return self._pointer.value

    def _all(self, function_):
        """Calls a function that takes a list of requests for this one."""
        self.ptr  # raises if it has been freed
        function_(1, ctypes.addressof(self._pointer))

    def attach_stream(self, stream=None):
        """Each start makes the call in the order of this stream."""
        _attach_stream(self.ptr, address_of(stream, self._kept))

    def attach_kernels(self, stream=None):
        """Kernels in this stream release what is started."""
        _attach_kernels(self.ptr, address_of(stream, self._kept))

    def attach_graph(self, graph):
        """`graph`: the address of a cudaGraph_t, or a Graph of the host twin."""
        pointer = getattr(graph, "pointer", graph)
        _attach_graph(self.ptr, getattr(pointer, "value", pointer))

    def get_node(self):
        """The address of the node that the latest start has added; None on the host twin."""
        node = ctypes.c_void_p()
        _get_node(self.ptr, ctypes.addressof(node))
        return node.value

    def get_device(self, abi, size):
        """The handle for kernels, as `size` bytes."""
        handle = ctypes.create_string_buffer(size)
        _get_device(self.ptr, abi, ctypes.addressof(handle), size)
        return handle.raw

    def prepare(self):
        """Makes what executions need. Collective."""
        self._all(_prepare)

    def start(self):
        """Starts an execution."""
        self._all(_start)

    def complete(self):
        """Lets the stream wait for the execution."""
        self._all(_complete)

    def pready(self, low=0, high=None):
        """Marks partitions ready from the host."""
        _pready(low, low if high is None else high, self.ptr)

    def parrived(self, partition):
        """Whether a partition has arrived."""
        flag = ctypes.c_int()
        _parrived(self.ptr, partition, ctypes.addressof(flag))
        return flag.value != 0

    def test(self):
        """Whether the execution has ended."""
        flag = ctypes.c_int()
        _test(self.ptr, ctypes.addressof(flag))
        return flag.value != 0

    def wait(self):
        """Waits for the execution on the host."""
        self._all(_wait)

    def free(self):
        """Of a request that kernels release: collective."""
        self.ptr  # raises if it has been freed
        _free(ctypes.addressof(self._pointer))
        self._kept = []
