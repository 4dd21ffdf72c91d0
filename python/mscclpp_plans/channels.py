"""Plans that are written block by block, with every signal and wait.

A plan consists of ranks, a rank of blocks, and a block of operations in order. For example:

    rank = Rank(0, inputs=1, outputs=2)
    channel = rank.channel("memory", 1)
    block = rank.block()
    block.sync("signal", "memory", [channel])
    block.move("put", [local("i", 0)], [block.remote("memory", 1, "o", 0)], "memory")

assemble() makes a plan from its ranks, and prove() of this package proves the plan.
"""


class Block:
    """One block of threads of a rank: its operations in order. Made by Rank.block."""

    def __init__(self, rank):
        self.rank, self.ops = rank, []
        self.channels, self.remotes = {}, {}

    @staticmethod
    def _position(tables, kind, number):
        """Returns the position of a number in the block's table of a kind. Appends the number if it is not there yet.

        Operations refer to channels and remote buffers by these positions.
        """
        table = tables.setdefault(kind, [])
        if number not in table:
            table.append(number)
        return table.index(number)

    def op(self, name, **keys):
        """Appends any operation. keys: the keys of the operation in the file."""
        self.ops.append(dict(name=name, **keys))

    def nop(self):
        """Appends a nop, at which all threads of the block meet."""
        self.op("nop")

    def sync(self, name, kind, numbers):
        """Appends a signal, wait, rlxsignal, rlxwait or flush on channels of the rank, of kind "memory" or "port"."""
        positions = [self._position(self.channels, kind, number) for number in numbers]
        self.op(name, channel_type=kind, channel_ids=positions)

    def move(self, name, src, dst, kind=None, channels=(), **keys):
        """Appends an operation on data. src, dst: lists of operands that local(), remote() and multicast() return.

        kind: "memory" or "port", if the operation reaches peers. channels: numbers of channels of the rank; for ports
        one channel for each target.
        """
        if kind:
            keys["channel_type"] = kind
        if channels:
            keys["channel_ids"] = [self._position(self.channels, kind, number) for number in channels]
        self.op(name, src_buff=src, dst_buff=dst, **keys)

    def remote(self, kind, rank, buffer, index, size=1):
        """Returns chunks of a peer's buffer as an operand, reached over channels of kind "memory" or "port"."""
        number = self.rank.remote(rank, buffer, kind)
        return {"buffer_id": self._position(self.remotes, kind, number), "index": index, "size": size}

    def multicast(self, number, index, size=1):
        """Returns chunks of the buffers of all ranks of a switch channel as an operand. number: the channel's number.
        """
        return {"switch_channel_id": self._position(self.channels, "switch", number), "index": index, "size": size}

    def to_dict(self, number):
        """Returns the block, whose number in its rank is `number`, as a dictionary in the form of the file."""
        return {"id": number, "ops": self.ops,
                "channels": [{"channel_type": kind, "channel_ids": numbers} for kind, numbers in self.channels.items()],
                "remote_buffer_refs": [{"access_channel_type": kind, "remote_buffer_ids": numbers}
                                       for kind, numbers in self.remotes.items()]}


class Rank:
    """One rank: its buffers' chunks, channels, semaphores and blocks."""

    def __init__(self, number, inputs, outputs, scratch=0):
        self.number, self.chunks = number, [inputs, outputs, scratch]
        self.blocks, self.peers, self.remotes, self.groups, self.semaphores = [], {}, [], [], []

    def block(self):
        """Adds a block, and returns it."""
        self.blocks.append(Block(self))
        return self.blocks[-1]

    def channel(self, kind, peer):
        """Adds a channel to a peer, and returns its number.

        The k-th channel from one rank to another is connected to the k-th channel in the other direction.
        """
        self.peers.setdefault(kind, []).append(peer)
        return len(self.peers[kind]) - 1

    def semaphore(self, value):
        """Adds a semaphore with this initial value, and returns its number."""
        self.semaphores.append(value)
        return len(self.semaphores) - 1

    def switch(self, buffer, ranks):
        """Adds a switch channel over a buffer of these ranks, and returns its number.

        All these ranks have to add their switch channels in the same order.
        """
        self.groups.append((buffer, sorted(ranks)))
        return len(self.groups) - 1

    def remote(self, rank, buffer, kind):
        """Returns the number of a peer's buffer, and makes the buffer accessible over channels of a kind."""
        for number, entry in enumerate(self.remotes):
            if (entry["rank"], entry["type"]) == (rank, buffer):
                if kind not in entry["access_channel_types"]:
                    entry["access_channel_types"].append(kind)
                return number
        self.remotes.append({"rank": rank, "type": buffer, "access_channel_types": [kind]})
        return len(self.remotes) - 1

    def to_dict(self):
        """Returns the rank as a dictionary in the form of the file."""
        inputs, outputs, scratch = self.chunks
        channels = [{"channel_type": kind, "connected_to": peers} for kind, peers in self.peers.items()]
        channels += [{"channel_type": "switch", "buffer_type": buffer,
                      "rank_groups": [{"size": len(ranks), "ranks": ranks}]} for buffer, ranks in self.groups]
        return {"id": self.number, "input_chunks": inputs, "output_chunks": outputs, "scratch_chunks": scratch,
                "channels": channels, "remote_buffers": self.remotes,
                "semaphores": [{"init_value": value} for value in self.semaphores],
                "threadblocks": [block.to_dict(i) for i, block in enumerate(self.blocks)]}


def local(buffer, index, size=1):
    """Returns chunks of a buffer ("i", "o" or "s") of the rank itself as an operand."""
    return {"type": buffer, "index": index, "size": size}


def assemble(name, collective, ranks, protocol="Simple", inplace=False, **keys):
    """Returns the whole plan as a dictionary for json.dump. keys: further keys of the top level of the file."""
    return {"name": name, "collective": collective, "protocol": protocol, "inplace": inplace,
            "gpus": [rank.to_dict() for rank in ranks], **keys}
