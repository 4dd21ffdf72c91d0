"""Streams of the host twin, and the addresses of streams of several frameworks."""
import contextlib
import ctypes
import sys

from ._library import HOST_FUNCTION, POINTER, function

_create = function("host_stream_create", POINTER)
_sync = function("host_stream_sync", POINTER)
_destroy = function("host_stream_destroy", POINTER)
_launch = function("host_launch", POINTER, HOST_FUNCTION, POINTER)
_capture_begin = function("host_capture_begin", POINTER)
_capture_end = function("host_capture_end", POINTER, POINTER)
_graph_launch = function("host_graph_launch", POINTER, POINTER)
_graph_destroy = function("host_graph_destroy", POINTER)


class HostStream:
    """A stream of the host twin, for programs without a GPU (parameter coll_mscclpp_device = host)."""

    def __init__(self):
        self._pointer = ctypes.c_void_p()
        self._kept = []
        self._graph = None
        _create(ctypes.addressof(self._pointer))

    @property
    def ptr(self):
        """The stream's address. Raises ValueError if it has been destroyed."""
        if self._pointer is None:
            raise ValueError("the stream has been destroyed")
        return self._pointer.value

    def keep(self, *objects):
        """Keeps objects alive until synchronize() or destroy(), which wait for all work in the stream.

        While the stream is captured, the graph keeps the objects alive until it is destroyed.
        """
        (self._kept if self._graph is None else self._graph.kept).extend(objects)

    def launch(self, callable_):
        """Queues a function without arguments in the stream, like a kernel of the application. It must not raise."""
        call = HOST_FUNCTION(lambda argument: callable_())
        self.keep(call)
        _launch(self.ptr, call, None)

    def synchronize(self):
        """Waits until the stream is empty."""
        _sync(self.ptr)
        self._kept.clear()

    @contextlib.contextmanager
    def capture(self):
        """Records the work that is queued in the stream in the body of `with stream.capture() as graph:`.

        The graph can be launched after the body has ended. The recording ends with the body, even if the body raises
        an exception. Raises ValueError if the stream is already being captured.
        """
        if self._graph is not None:
            raise ValueError("the stream is captured already")
        _capture_begin(self.ptr)
        self._graph = Graph()
        try:
            yield self._graph
        finally:
            graph, self._graph = self._graph, None
            _capture_end(self.ptr, ctypes.addressof(graph.pointer))

    def destroy(self):
        """Waits for the work in the stream, and frees the stream, which cannot be used any more."""
        if self._pointer is not None:
            _destroy(self.ptr)
            self._pointer = None
            self._kept.clear()


class Graph:
    """The work that HostStream.capture has recorded."""

    def __init__(self):
        self.pointer = ctypes.c_void_p()
        self.kept = []

    def launch(self, stream):
        """Queues all recorded work in a HostStream. Raises ValueError if the graph is not complete or was destroyed."""
        if not self.pointer.value:
            raise ValueError("the graph is still recorded, or has been destroyed")
        stream.keep(self)
        _graph_launch(self.pointer.value, stream.ptr)

    def destroy(self):
        """Frees the graph. Its launches must have ended."""
        if self.pointer.value:
            _graph_destroy(self.pointer.value)
            self.pointer = ctypes.c_void_p()
            self.kept.clear()


def address_of(stream, buffers):
    """Returns the address of a stream of any framework.

    If `stream` is None, it is the current stream of the framework of the first one of `buffers` that is on a GPU. An
    integer is already an address, except for True and False, which Python treats as integers. Raises TypeError for an
    object that is no stream.
    """
    if stream is None:
        return _current_stream(buffers)
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("ptr", "cuda_stream", "handle"):  # CuPy and HostStream, PyTorch, Numba
        value = getattr(stream, name, None)
        if value is not None:
            # Numba's handle is an object of ctypes, whose value is None for the default stream.
            return int(getattr(value, "value", value) or 0)
    raise TypeError(f"'{type(stream).__name__}' is no stream: pass one of CuPy, PyTorch or Numba, an object with "
                    "__cuda_stream__, an address, or a HostStream")


def _current_stream(buffers):
    """Returns the address of the current stream of the framework that owns the first buffer on a GPU.

    The frameworks are PyTorch and CuPy. Arrays of CuPy are always on a GPU. If neither of them owns a buffer on a GPU,
    returns 0, the default stream.
    """
    for buffer in buffers:
        framework = type(buffer).__module__.partition(".")[0]
        if framework == "torch" and buffer.is_cuda:
            return sys.modules["torch"].cuda.current_stream(buffer.device).cuda_stream
        if framework == "cupy":
            return sys.modules["cupy"].cuda.get_current_stream().ptr
    return 0
