"""Reads arguments like mpi4py: an array, or a list of an array with counts, displacements and MPI types."""
import ctypes
import sys

from mpi4py import MPI

# Codes of element types: the letter of the array interface and the size in bytes. First the MPI type of each code, then
# the code of each type of PyTorch.
_TYPES = {
    "b1": "C_BOOL", "i1": "INT8_T", "i2": "INT16_T", "i4": "INT32_T", "i8": "INT64_T", "u1": "UINT8_T",
    "u2": "UINT16_T", "u4": "UINT32_T", "u8": "UINT64_T", "f4": "FLOAT", "f8": "DOUBLE", "c8": "C_FLOAT_COMPLEX",
    "c16": "C_DOUBLE_COMPLEX",
}
_TORCH = {
    "bool": "b1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float32": "f4", "float64": "f8", "complex64": "c8", "complex128": "c16",
}
# Letters of the array interface, by formats of the buffer protocol.
_FORMATS = {"?": "b", "c": "u", **dict.fromkeys("efdg", "f"), **dict.fromkeys(("Zf", "Zd", "Zg"), "c"),
            **dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQN", "u")}
# The characters with which formats of elements in this machine's byte order begin. "|" is for elements of one byte.
_NATIVE = "@=|<" if sys.byteorder == "little" else "@=|>!"


class Array:
    """The memory of a buffer.

    owner: the object that owns the memory. writes: the call writes to the memory, so it must not be read-only. address:
    where the memory begins. size: its bytes. code: the code of the element type, a key of _TYPES. Raises ValueError if
    the buffer is not contiguous, or if it is read-only although the call writes to it.
    """

    def __init__(self, owner, writes):
        self.owner = owner
        if type(owner).__module__.partition(".")[0] == "torch":
            self._of_torch(owner)
        elif getattr(owner, "__cuda_array_interface__", None) is not None:
            self._of_interface(owner.__cuda_array_interface__, writes)
        elif getattr(owner, "__array_interface__", None) is not None:
            self._of_interface(owner.__array_interface__, writes)
        else:
            self._of_memory(owner, writes)

    def _of_torch(self, tensor):
        """Stores the address and size of a tensor of PyTorch, on a GPU or not. No tensor is read-only.

        If the element type is unknown, its name becomes the code, and datatype() raises an exception later.
        """
        if not tensor.is_contiguous():
            raise ValueError("the tensor is not contiguous; pass tensor.contiguous()")
        self.address = tensor.data_ptr()
        self.size = tensor.numel() * tensor.element_size()
        self.code = _TORCH.get(str(tensor.dtype).rpartition(".")[2], str(tensor.dtype))

    def _of_interface(self, interface, writes):
        """Stores the address and size of an array from its __cuda_array_interface__ or __array_interface__.

        An array without elements counts as contiguous, whatever its strides are.
        """
        address, read_only = interface["data"]
        self.address = address or 0
        if writes and read_only:
            raise ValueError("the array that the result goes to is read-only")
        item_bytes = int(interface["typestr"][2:])
        self.code = interface["typestr"].lstrip(_NATIVE)
        self.size = item_bytes
        for length in interface["shape"]:
            self.size *= length
        if self.size and not _is_contiguous(interface["shape"], interface.get("strides"), item_bytes):
            raise ValueError(f"the array is not contiguous (shape {interface['shape']}, strides "
                             f"{interface['strides']})")

    def _of_memory(self, owner, writes):
        """Stores the address and size of an object with the buffer protocol.

        If the format of the elements is unknown, it becomes the code, and datatype() raises an exception later.
        """
        view = memoryview(owner)
        if not view.contiguous:
            raise ValueError("the buffer is not contiguous")
        if writes and view.readonly:
            raise ValueError("the buffer that the result goes to is read-only")
        self.size = view.nbytes
        # The class is called `buffer` since mpi4py 4, and `memory` in older versions. It accepts any object if it is
        # asked for a read-only view. Objects that are read-only although the call writes to them were refused above.
        self.address = getattr(MPI, "buffer", getattr(MPI, "memory", None)).frombuffer(owner, readonly=True).address
        letters = view.format.lstrip(_NATIVE)
        self.code = _FORMATS[letters] + str(view.itemsize) if letters in _FORMATS else view.format

    def datatype(self):
        """Returns the MPI type of the elements. Raises TypeError if no MPI type is known for them."""
        if self.code not in _TYPES:
            raise TypeError(f"no MPI type is known for elements of type '{self.code}'; pass [array, type]")
        return getattr(MPI, _TYPES[self.code])


def _is_contiguous(shape, strides, item_bytes):
    """Returns True if an array has no gaps, in the order of C or of Fortran. item_bytes: the bytes of an element."""
    if strides is None:
        return True

    def is_dense(pairs):
        """Returns True if there are no gaps. pairs: length and stride of each dimension, from the innermost outwards.

        The stride of a dimension of length 1 does not matter.
        """
        expected_stride = item_bytes
        for length, stride in pairs:
            if length != 1 and stride != expected_stride:
                return False
            expected_stride *= length
        return True
    pairs = list(zip(shape, strides))
    return is_dense(reversed(pairs)) or is_dense(pairs)


class Message:
    """One side of a call: its address and MPI type, and the counts and displacements of the caller, or None.

    spec: the argument, in a form that mpi4py accepts. writes: the call writes to the memory. array: the Array, or None
    if the side has no memory of its own.
    """

    def __init__(self, spec, writes=False):
        self.array = None
        self.in_place = False
        self.counts = self.displs = None
        self.type = None
        if spec is None:  # MPI does not read this side on this rank
            self.address, self.type, self.counts = None, MPI.BYTE, 0
        elif _is_special(spec, MPI.IN_PLACE):
            self.in_place, self.address, self.type, self.counts = True, int(MPI.IN_PLACE), MPI.BYTE, 0
        else:
            self._read(spec if isinstance(spec, (list, tuple)) else [spec], writes)

    def _read(self, spec, writes):
        """Reads a list of the array, counts, displacements and type, in the forms that mpi4py accepts.

        All entries but the array may be left out. Counts and displacements may also be a pair in one tuple. A tuple of
        two numbers is no such pair, but contains two counts. Raises ValueError for any other list.
        """
        if not 1 <= len(spec) <= 4:
            raise ValueError(f"a list for a buffer has 1 to 4 entries, not {len(spec)}: the array, counts, "
                             "displacements, type")
        entries = list(spec[1:])
        if entries and _is_type(entries[-1]):
            self.type = entries.pop()
        if entries and isinstance(entries[0], tuple) and len(entries) == 1 and len(entries[0]) == 2 and \
                any(part is None or hasattr(part, "__len__") for part in entries[0]):
            entries = list(entries[0])
        if len(entries) > 2:
            raise ValueError("the last entry of a list for a buffer is to be an MPI type, or a list of such")
        self.counts = entries[0] if entries else None
        self.displs = entries[1] if len(entries) > 1 else None
        if spec[0] is None or _is_special(spec[0], MPI.BOTTOM):
            self.address = 0
            if self.type is None or self.counts is None:
                raise ValueError("a buffer without memory needs counts and a type")
            return
        self.array = Array(spec[0], writes)
        self.address = self.array.address
        if self.type is None:
            self.type = self.array.datatype()

    def count(self, blocks=1):
        """Returns how many elements of the MPI type each of `blocks` equal blocks has.

        If the caller has given a count, this is the count of one block. Otherwise the whole array is divided into
        blocks. Raises ValueError if they cannot be equal.
        """
        if self.counts is not None:
            return int(self.counts)
        elements = self._elements()
        if elements % blocks:
            raise ValueError(f"{elements} elements are not a multiple of {blocks} blocks")
        return elements // blocks

    def vector(self, blocks):
        """Returns the counts and displacements of blocks of different sizes, as C arrays.

        If the caller has given no counts, the sizes of the blocks differ by at most one element. A single number is the
        count of each block. Without displacements the blocks are adjacent. Raises ValueError if there is not one count
        and one displacement for each block.
        """
        counts = self.counts
        if counts is None:
            elements = self._elements()
            counts = [elements // blocks + (block < elements % blocks) for block in range(blocks)]
        elif not hasattr(counts, "__len__"):
            counts = [int(counts)] * blocks
        displs = self.displs
        if displs is None:
            displs = [0] * blocks
            for block in range(1, blocks):
                displs[block] = displs[block - 1] + int(counts[block - 1])
        return integers(counts, blocks, "counts"), integers(displs, blocks, "displacements")

    def _elements(self):
        """Returns how many elements of the MPI type the array has. Raises ValueError if the last one is incomplete.

        Call this only if there are no counts. The message then has an array, since _read() refuses a buffer that has
        neither memory nor counts.
        """
        extent = self.type.Get_extent()[1]
        if extent <= 0 or self.array.size % extent:
            raise ValueError(f"{self.array.size} bytes are not a multiple of the type's extent of {extent}")
        return self.array.size // extent


def integers(values, count, name, c_type=ctypes.c_int):
    """Returns a C array of `count` integers of the type `c_type`. name: the name of the values in messages.

    Raises ValueError unless `values` has `count` entries.
    """
    if len(values) != count:
        raise ValueError(f"{len(values)} {name} for {count} blocks")
    return (c_type * count)(*(int(value) for value in values))


def _is_special(argument, special):
    """Returns True if `argument` is `special`, MPI.IN_PLACE or MPI.BOTTOM, which are plain integers before mpi4py 4."""
    return type(argument) is type(special) and argument == special


def _is_type(entry):
    """Returns True if an entry of a list is an MPI datatype, or a list of MPI datatypes."""
    return isinstance(entry, MPI.Datatype) or (
        isinstance(entry, (list, tuple)) and len(entry) > 0 and all(isinstance(item, MPI.Datatype) for item in entry))
