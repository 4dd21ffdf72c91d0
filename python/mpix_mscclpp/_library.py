"""The library, its functions, and how their errors are raised."""
import ctypes
import os

from mpi4py import MPI

NAME = "libmpix_mscclpp.so.0"


def load():
    """MPIX_MSCCLPP_LIBRARY names the file; else it is the one that was installed with this module, or the loader's."""
    chosen = os.environ.get("MPIX_MSCCLPP_LIBRARY")
    if chosen:
        return ctypes.CDLL(chosen)
    try:
        from ._installed import LIBRARY
        if os.path.exists(LIBRARY):
            return ctypes.CDLL(LIBRARY)
    except ImportError:  # not installed
        pass
    try:
        return ctypes.CDLL(NAME)
    except OSError as error:
        raise ImportError(f"cannot load {NAME} ({error}); MPIX_MSCCLPP_LIBRARY may name the file") from error


_LIBRARY = load()

POINTER, COUNT, INT = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def function(name, *types):
    """A function of the library that raises the error which it returns."""
    found = getattr(_LIBRARY, "MPIX_Mscclpp_" + name)
    found.argtypes = types
    found.restype = INT

    def call(*arguments):
        """Calls the function, and raises an exception for an error code."""
        code = found(*arguments)
        if code != MPI.SUCCESS:
            raise MPI.Exception(code)
    return call


def handle(thing):
    """The C handle of a communicator, a type or an operation of mpi4py."""
    return MPI._handleof(thing)  # the name under which mpi4py offers it
