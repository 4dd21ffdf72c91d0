#!/usr/bin/env python3
"""Tensors of PyTorch in MPI calls, through mpi4py: gradients of a model, averaged by MPI_Allreduce where they lie.

mpi4py takes a tensor on a GPU as it is, since it has __cuda_array_interface__. Of a tensor on the CPU it takes the
NumPy view, which shares the tensor's memory; with the host twin, Allreduce takes that as if it were on a GPU.

Usage: mpirun -n RANKS --mca coll mscclpp python3 tensors.py
       mpirun -n RANKS --mca coll mscclpp --mca coll_mscclpp_device host python3 tensors.py --cpu
Exit status 77, and a line that says why, without PyTorch.
"""
import sys

try:
    import torch
except ImportError as error:
    print(f"skipped: no PyTorch ({error})", flush=True)
    sys.exit(77)

from mpi4py import MPI

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
SAMPLES = 240


def choose_device():
    """Returns this rank's device: the ranks of one machine take its GPUs in turn, and without GPUs the CPU."""
    if "--cpu" in sys.argv[1:] or not torch.cuda.is_available():
        return torch.device("cpu")
    machine = COMM.Split_type(MPI.COMM_TYPE_SHARED)
    device = torch.device("cuda", machine.Get_rank() % torch.cuda.device_count())
    machine.Free()
    torch.cuda.set_device(device)
    return device


def buffer(tensor):
    """Returns what mpi4py takes for a tensor, which must be contiguous, and of a type of MPI: not bfloat16 or half."""
    tensor = tensor.detach()
    return tensor if tensor.is_cuda else tensor.numpy()


def add_up(tensor):
    """Replaces a tensor by the sum of the tensors of all ranks, which have one shape and type."""
    if tensor.is_cuda:
        torch.cuda.current_stream().synchronize()  # MPI knows nothing of streams, so its input has to be there
    COMM.Allreduce(MPI.IN_PLACE, buffer(tensor), MPI.SUM)


def gradients(model, inputs, targets, total):
    """Returns one vector: what these samples contribute to the gradients of the mean error over `total` samples.

    Contributions add up to the whole, since the error of the samples is a sum that is divided by `total`.
    """
    model.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets, reduction="sum").div(total).backward()
    return torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])


def main():
    """Adds up gradients and tensors of several types, and compares with what one process computes."""
    device = choose_device()
    torch.manual_seed(7)  # the same model and samples on all ranks
    model = torch.nn.Sequential(torch.nn.Linear(12, 40), torch.nn.Tanh(), torch.nn.Linear(40, 1)).double().to(device)
    inputs = torch.randn(SAMPLES, 12, dtype=torch.float64)
    targets = inputs.pow(2).sum(1, keepdim=True)
    inputs, targets = inputs.to(device), targets.to(device)

    begin, end = SAMPLES * RANK // SIZE, SAMPLES * (RANK + 1) // SIZE
    vector = gradients(model, inputs[begin:end], targets[begin:end], SAMPLES)
    add_up(vector)
    whole = gradients(model, inputs, targets, SAMPLES)
    difference = float((vector - whole).abs().max() / whole.abs().max())

    # MPI adds up tensors of any type that it knows.
    wrong = []
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8):
        tensor = torch.arange(1000, device=device).remainder(5).to(dtype) + RANK
        add_up(tensor)
        expected = torch.arange(1000, device=device).remainder(5) * SIZE + SIZE * (SIZE - 1) // 2
        if not torch.equal(tensor, expected.to(dtype)):
            wrong.append(str(dtype))
    good = COMM.allreduce(difference < 1e-10 and not wrong, MPI.LAND)
    if RANK == 0:
        print(f"tensors: {SIZE} ranks ({device}), gradients within {difference:.1e} of those of one process, "
              f"{'wrong: ' + ', '.join(wrong) if wrong else 'sums of five types right'}: "
              f"{'right' if good else 'WRONG'}")
    sys.exit(0 if good else 1)


main()
