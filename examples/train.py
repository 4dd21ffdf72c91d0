#!/usr/bin/env python3
"""A data-parallel training step with mpi4py and CuPy: gradients are averaged by MPI_Allreduce on the GPU.

Each rank computes the gradients of its part of every batch, and one Allreduce adds up those of all ranks where they
lie. All ranks then take the same step, so their parameters stay equal. Without CuPy or a GPU the arrays are NumPy's;
with the host twin, Allreduce takes them as if they were on a GPU.

Usage: mpirun -n RANKS --mca coll mscclpp python3 train.py
       mpirun -n RANKS --mca coll mscclpp --mca coll_mscclpp_device host python3 train.py --cpu
"""
import sys

import numpy

xp = numpy  # the module of the arrays: numpy or cupy
if "--cpu" not in sys.argv[1:]:
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() > 0:
            xp = cupy
    except Exception as error:  # no CuPy, or no driver
        print(f"train: NumPy on the CPU, as there is no CuPy with a GPU ({error})", file=sys.stderr)

from mpi4py import MPI  # after CuPy: this calls MPI_Init

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
INPUTS, HIDDEN, BATCH, STEPS, RATE = 16, 64, 96, 60, 0.2


def choose_device():
    """Chooses this rank's GPU, if arrays are CuPy's: ranks of one machine take its GPUs in turn."""
    machine = COMM.Split_type(MPI.COMM_TYPE_SHARED)
    if xp is not numpy:
        xp.cuda.Device(machine.Get_rank() % xp.cuda.runtime.getDeviceCount()).use()
    machine.Free()


class Net:
    """A network of two layers. Its gradients are one vector, so that one Allreduce adds up all of them."""

    def __init__(self, module, seed):
        """Makes the same weights for each network of this seed. `module` is that of its arrays."""
        self.xp = module
        random = numpy.random.RandomState(seed)
        first = random.standard_normal((INPUTS, HIDDEN)) / numpy.sqrt(INPUTS)
        second = random.standard_normal((HIDDEN, 1)) / numpy.sqrt(HIDDEN)
        self.parameters = module.asarray(numpy.concatenate([first.ravel(), second.ravel()]))
        self.gradients = module.zeros_like(self.parameters)
        self.first, self.second = self.views(self.parameters)
        self.first_gradient, self.second_gradient = self.views(self.gradients)

    @staticmethod
    def views(vector):
        """Returns the two matrices of weights as views of one vector: what is written to it shows in them."""
        cut = INPUTS * HIDDEN
        return vector[:cut].reshape(INPUTS, HIDDEN), vector[cut:].reshape(HIDDEN, 1)

    def differentiate(self, inputs, targets, total):
        """Sets the gradients to what these samples, out of `total`, contribute. Returns their share of the error.

        Both are sums over samples divided by `total`, so that the shares of all ranks add up to the whole batch's.
        """
        hidden = self.xp.tanh(inputs @ self.first)
        error = hidden @ self.second - targets
        self.second_gradient[:] = hidden.T @ error * (2.0 / total)
        hidden_error = error @ self.second.T * (1.0 - hidden * hidden)
        self.first_gradient[:] = inputs.T @ hidden_error * (2.0 / total)
        return float((error * error).sum()) / total

    def step(self):
        """Moves the parameters against their gradients."""
        self.parameters -= RATE * self.gradients


def samples(step):
    """Returns the batch of a step, the same on all ranks. An application would load only the part of this rank."""
    random = numpy.random.RandomState(1000 + step)
    inputs = random.standard_normal((BATCH, INPUTS))
    return inputs, numpy.sin(inputs[:, :1] * 2.0) + 0.5 * inputs[:, 1:2]


def finish_work():
    """Waits for the GPU. MPI knows nothing of streams, so what it reads has to be there before the call."""
    if xp is not numpy:
        xp.cuda.get_current_stream().synchronize()


def main():
    """Trains on all ranks and, to compare with, the same network on each rank alone."""
    choose_device()
    net, alone = Net(xp, 1), Net(numpy, 1)
    begin, end = BATCH * RANK // SIZE, BATCH * (RANK + 1) // SIZE
    errors = []
    for step in range(STEPS):
        inputs, targets = samples(step)
        net.differentiate(xp.asarray(inputs[begin:end]), xp.asarray(targets[begin:end]), BATCH)
        finish_work()
        COMM.Allreduce(MPI.IN_PLACE, net.gradients, MPI.SUM)
        net.step()
        # Each rank also takes the step alone, with the whole batch, to compare with.
        errors.append(alone.differentiate(inputs, targets, BATCH))
        alone.step()
    parameters = net.parameters if xp is numpy else xp.asnumpy(net.parameters)
    difference = COMM.allreduce(float(numpy.abs(parameters - alone.parameters).max()), MPI.MAX)
    good = difference < 1e-9 and errors[-1] < 0.5 * errors[0]
    if RANK == 0:
        print(f"train: {STEPS} steps on {SIZE} ranks ({xp.__name__}), error {errors[0]:.3f} to {errors[-1]:.3f}, "
              f"parameters within {difference:.1e} of those of one process: {'right' if good else 'WRONG'}")
    sys.exit(0 if good else 1)


main()
