"""Limits of MSCCL++'s own executor. Portable plans must not exceed them; coll/mscclpp has none of these limits."""


class Limits:
    """The sizes of the executor's tables."""

    OPERATIONS = 64  # operations of a block, including those within pipelines
    CHANNELS = 16  # channels of one type in a block
    REMOTES = 16  # buffers of peers that a block reaches over channels of one type
    IDS = 8  # channels of one operation
    ITEMS = 10  # sources, or targets, of one operation
    SEMAPHORES = 16  # semaphores of one operation
    NUMBERS = 256  # channels of a rank, and semaphores of a rank
    BARRIERS = 16  # barriers of a rank
    SCRATCH = 64 << 20  # bytes of data in a scratch that all buffers share ("reuse_resources")


def _limited_counts(plan):
    """Yields (rank, block or None, what, how many, limit) for everything that has a limit, exceeded or not.

    The scratch is left out: writer.py checks it, also for programs that are not portable. Operations in pipelines are
    counted like other operations, and the pipeline itself is one operation, too.
    """
    for gpu in plan["gpus"]:
        yield gpu["id"], None, "semaphores", len(gpu.get("semaphores", [])), Limits.NUMBERS
        for channels in gpu["channels"]:
            yield gpu["id"], None, "channels", len(channels.get("connected_to", [])), Limits.NUMBERS
        for block in gpu["threadblocks"]:
            position = gpu["id"], block["id"]
            ops = [op for outer in block["ops"] for op in [outer, *outer.get("ops", [])]]
            yield *position, "operations", len(ops), Limits.OPERATIONS
            for table in block["channels"]:
                yield *position, "channels", len(table["channel_ids"]), Limits.CHANNELS
            for table in block.get("remote_buffer_refs", []):
                yield *position, "buffers of peers", len(table["remote_buffer_ids"]), Limits.REMOTES
            for op in ops:
                yield *position, f"channels of one {op['name']}", len(op.get("channel_ids", [])), Limits.IDS
                yield *position, f"sources of one {op['name']}", len(op.get("src_buff", [])), Limits.ITEMS
                yield *position, f"targets of one {op['name']}", len(op.get("dst_buff", [])), Limits.ITEMS
                yield *position, f"semaphores of one {op['name']}", len(op.get("semaphore_ids", [])), Limits.SEMAPHORES
                yield *position, "numbers of barriers", op.get("barrier_id", -1) + 1, Limits.BARRIERS


def exceeded(plan):
    """Returns a line for each place in a plan that exceeds a limit of MSCCL++'s executor."""
    return [f"rank {rank}{'' if block is None else f', block {block}'}: {count} {what}; MSCCL++ has room for {most}"
            for rank, block, what, count, most in _limited_counts(plan) if count > most]
