"""Loads the library, and makes its functions raise errors."""
import ctypes
import os

from mpi4py import MPI

NAME = "libmpix_mscclpp.so.0"


def load():
    """Loads the library.

    The library is the file that the environment variable MPIX_MSCCLPP_LIBRARY names, or else the file that was
    installed with this module, or else the file that the dynamic loader finds. Raises OSError if the named file or the
    installed file cannot be loaded, and ImportError if the loader finds no file.
    """
    file_name = os.environ.get("MPIX_MSCCLPP_LIBRARY")
    if file_name:
        return ctypes.CDLL(file_name)
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
    """Returns a Python function that calls the library's function MPIX_Mscclpp_<name>.

    The Python function raises an MPI.Exception if the C function returns an error code. types: the C types of the
    arguments. Raises AttributeError if the library has no such function.
    """
    c_function = getattr(_LIBRARY, "MPIX_Mscclpp_" + name)
    c_function.argtypes = types
    c_function.restype = INT

    def call(*arguments):
        """Calls the function in C. Raises an MPI.Exception if it returns an error code."""
        code = c_function(*arguments)
        if code != MPI.SUCCESS:
            raise MPI.Exception(code)
    return call


def handle(mpi_object):
    """Returns the C handle of a communicator, a type or an operation of mpi4py."""
    return MPI._handleof(mpi_object)  # mpi4py has no public name for this function
