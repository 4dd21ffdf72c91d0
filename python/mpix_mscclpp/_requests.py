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
    which is collective. mpix_mscclpp_requests.h says what each function does. make: the function of C that makes it;
    arguments: its arguments but for the last, the address of the handle. kept: the buffers, which live at least as
    long as the request, and by which the attach functions find the stream if none is named.
    """

    def __init__(self, make, arguments, kept):
        self._pointer = ctypes.c_void_p()
        self._kept = kept
        make(*arguments, ctypes.addressof(self._pointer))

    @property
    def ptr(self):
        """The request's handle in C. Raises ValueError if it has been freed."""
        if not self._pointer.value:
            raise ValueError("the request has been freed")
        return self._pointer.value

    def _call_on_list(self, function_):
        """Calls a function of C that takes a list of requests, with this one."""
        self.ptr  # raises if it has been freed
        function_(1, ctypes.addressof(self._pointer))

    def attach_stream(self, stream=None):
        """Lets each start make the call in the order of this stream."""
        _attach_stream(self.ptr, address_of(stream, self._kept))

    def attach_kernels(self, stream=None):
        """Lets kernels in this stream release what is started."""
        _attach_kernels(self.ptr, address_of(stream, self._kept))

    def attach_graph(self, graph):
        """Lets each start add a node to a graph. graph: the address of a cudaGraph_t, or a Graph of the host twin."""
        pointer = getattr(graph, "pointer", graph)
        _attach_graph(self.ptr, getattr(pointer, "value", pointer))

    def get_node(self):
        """Returns the address of the node that the latest start has added; None on the host twin."""
        node = ctypes.c_void_p()
        _get_node(self.ptr, ctypes.addressof(node))
        return node.value

    def get_device(self, abi, size):
        """Returns the handle for kernels, as `size` bytes. abi: of the header that the kernels were compiled with."""
        handle = ctypes.create_string_buffer(size)
        _get_device(self.ptr, abi, ctypes.addressof(handle), size)
        return handle.raw

    def prepare(self):
        """Makes what executions need. Collective."""
        self._call_on_list(_prepare)

    def start(self):
        """Starts an execution."""
        self._call_on_list(_start)

    def complete(self):
        """Lets what comes next in the stream of attach_kernels wait for the executions."""
        self._call_on_list(_complete)

    def pready(self, low=0, high=None):
        """Marks partitions `low` to `high` ready from the host; `high` None: only `low`."""
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
        """Frees the request and lets go of its buffers. Collective if kernels release it."""
        self.ptr  # raises if it has been freed
        _free(ctypes.addressof(self._pointer))
        self._kept = []
