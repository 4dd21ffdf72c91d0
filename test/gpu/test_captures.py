#!/usr/bin/env python3
"""Queued calls of mpix_mscclpp in graphs that CuPy and PyTorch capture, in each mode of capture.

Run it as `mpirun -n N --mca coll mscclpp python3 test_captures.py cupy|torch`, with PYTHONPATH and
MPIX_MSCCLPP_LIBRARY as for any program with the module. Exit status 0: passed, 1: failed, 77: skipped, and a line says
why.
"""
import sys

SKIPPED = 77
COUNTS = (3, 5000, 300000)
REPLAYS = 4


def skip(reason):
    print("skipped:", reason, flush=True)
    sys.exit(SKIPPED)


class CuPy:
    """Arrays and graphs of CuPy."""

    def __init__(self):
        import cupy

        self.cupy = cupy
        self.devices = cupy.cuda.runtime.getDeviceCount()
        runtime = cupy.cuda.runtime
        self.modes = {"global": runtime.streamCaptureModeGlobal, "thread": runtime.streamCaptureModeThreadLocal,
                      "relaxed": runtime.streamCaptureModeRelaxed}

    def begin(self, device):
        self.cupy.cuda.Device(device).use()
        return self.cupy.cuda.Stream(non_blocking=True)

    def full(self, count, value):
        return self.cupy.full(count, value, dtype="int64")

    def add_one(self, array):
        self.cupy.add(array, 1, out=array)

    def equal(self, array, values):
        return array.get().tolist() == values

    def within(self, stream):
        return stream

    def capture(self, stream, mode, body):
        """Returns what launches the graph, and what has to stay for as long as it is launched."""
        with stream:
            stream.begin_capture(self.modes[mode])
            body()
            graph = stream.end_capture()
        return lambda: graph.launch(stream)


class Torch:
    """Tensors and graphs of PyTorch."""

    def __init__(self):
        import torch

        self.torch = torch
        self.devices = torch.cuda.device_count()
        self.modes = {"global": "global", "thread": "thread_local", "relaxed": "relaxed"}

    def begin(self, device):
        self.torch.cuda.set_device(device)
        return self.torch.cuda.Stream()

    def full(self, count, value):
        return self.torch.full((count,), value, dtype=self.torch.int64, device="cuda")

    def add_one(self, tensor):
        tensor.add_(1)

    def equal(self, tensor, values):
        return tensor.cpu().tolist() == values

    def within(self, stream):
        return self.torch.cuda.stream(stream)

    def capture(self, stream, mode, body):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=stream, capture_error_mode=self.modes[mode]):
            body()

        def launch():
            with self.within(stream):
                graph.replay()
        return launch


def load(name):
    """Before MPI_Init, which the import of mpi4py.MPI calls."""
    try:
        framework = {"cupy": CuPy, "torch": Torch}[name]()
    except ImportError as error:
        skip(f"no {name} ({error})")
    except RuntimeError as error:
        skip(f"{name} finds no GPU ({error})")
    if framework.devices < 1:
        skip(f"{name} finds no GPU")
    return framework


class Case:
    """Three collectives behind a kernel of the framework, on arrays that each execution changes."""

    def __init__(self, framework, comm, count):
        self.framework, self.comm, self.count = framework, comm, count
        self.rank, self.size = comm.comm.Get_rank(), comm.comm.Get_size()
        self.executions = 0
        self.own = framework.full(count, self.rank)
        self.total, self.first = framework.full(count, 0), framework.full(count, self.rank)
        self.parts = framework.full(count * self.size, 0)

    def queue(self):
        """The stream is the framework's current one."""
        self.framework.add_one(self.own)
        self.comm.Allreduce(self.own, self.total)
        self.comm.Allgather(self.own, self.parts)
        self.framework.add_one(self.first)
        self.comm.Bcast(self.first, root=0)

    def is_right(self):
        """All ranks have executed the calls equally often."""
        done = self.executions
        parts = [rank + done for rank in range(self.size) for _ in range(self.count)]
        return self.framework.equal(self.own, [self.rank + done] * self.count) and \
            self.framework.equal(self.total, [self.size * (self.size - 1) // 2 + self.size * done] * self.count) and \
            self.framework.equal(self.first, [done] * self.count) and self.framework.equal(self.parts, parts)


def run(framework, comm, stream):
    """Returns what was wrong."""
    wrong = []
    for count in COUNTS:
        case = Case(framework, comm, count)
        with framework.within(stream):
            stream.synchronize()
            case.queue()  # outside a capture: it makes the communicator's queue, and the framework compiles its kernels
        case.executions += 1
        stream.synchronize()
        if not case.is_right():
            wrong.append(f"{count} elements, queued")
        for mode in framework.modes:
            launch = framework.capture(stream, mode, case.queue)
            for _ in range(REPLAYS):
                launch()
                with framework.within(stream):
                    case.queue()
                case.executions += 2
            stream.synchronize()
            if not case.is_right():
                wrong.append(f"{count} elements, captured in mode {mode}")
            comm.Barrier(stream=stream)
            stream.synchronize()
    return wrong


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in ("cupy", "torch"):
        sys.exit("Usage: test_captures.py cupy|torch")
    framework = load(sys.argv[1])
    from mpi4py import MPI

    import mpix_mscclpp

    world = MPI.COMM_WORLD
    machine = world.Split_type(MPI.COMM_TYPE_SHARED)
    stream = framework.begin(machine.Get_rank() % framework.devices)
    machine.Free()
    comm = mpix_mscclpp.Queued(world)
    wrong = run(framework, comm, stream)
    if comm.Get_queued() == 0 or comm.Get_waited() != 0:
        wrong.append(f"{comm.Get_queued()} calls were queued, and {comm.Get_waited()} waited")
    for what in wrong:
        print(f"rank {world.Get_rank()}: wrong: {what}", file=sys.stderr, flush=True)
    failures = world.allreduce(len(wrong))
    if world.Get_rank() == 0:
        print(f"{sys.argv[1]}, {world.Get_size()} ranks, {comm.Get_queued()} calls queued: "
              f"{'right' if failures == 0 else 'wrong'}", flush=True)
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
