"""Derives the signals and waits that steps need, and leaves out those that say nothing new.

An agent is one block of threads: (rank, block). It does its steps in the order of their numbers.

What an agent knows is, for each other agent, the number of the last step that is surely done. A signal passes on all
that its sender knows. A wait for a step that is known to be done is left out.

A proxy carries out a put some time after the block has asked for it. So the port of an agent counts like an agent of
its own. A signal through the port tells the peer that the puts before it are done. A flush tells the agent itself.

A step waits for steps with smaller numbers only. So agents cannot wait for one another in a circle, and the first wait
on a channel belongs to its first signal, the second wait to the second signal, and so on.

In a loop each turn works on its own part of every chunk, so turns need not wait for one another. The exception is a
scratch that is shorter than the chunks, which turns go round like a ring. There, the agent that writes a place first in
a turn needs a credit from every other agent that uses the place in a turn. The loop begins with CREDITS credits of each
kind, so this many turns can be under way.
"""
import collections

CREDITS = 2


class Point:
    """What an agent does for the sake of others at its begin, at one step or at its end.

    waits, signals: agents. Between agents of one rank, semaphores do what channels do between ranks. takes, gives:
    agents with which credits are exchanged. flush_before, flush_after: agents on the far side of ports, all puts to
    which have to be done. known, queued, heard: what Synchronisation knew of the agent when it had done this.
    """

    def __init__(self, agent, number, step=None):
        self.agent, self.number, self.step = agent, number, step
        self.waits, self.signals = [], []
        self.takes, self.gives = [], []
        self.flush_before, self.flush_after = [], []
        self.known, self.queued, self.heard = {}, {}, set()


class Synchronisation:
    """The points of each agent, in order.

    lists: the points, by agent. far: for each step through a port, the agent on the other side. count: signals.
    needless: signals that were left out.
    """

    def __init__(self, program, steps, choice):
        self.program, self.choice = program, choice
        self.agents = sorted({step.agent for step in steps} | {(r, 0) for r in range(program.ranks)})
        self.lists = {agent: [] for agent in self.agents}
        self.begin = {agent: self._add(agent, 0) for agent in self.agents}
        self.known = {agent: {agent: 0} for agent in self.agents}  # number of the last step, by agent or port
        self.heard = {agent: {agent[0]} for agent in self.agents}  # ranks that have begun, as signals or packets tell
        self.queued = {agent: {} for agent in self.agents}  # number of the last put, by port
        self.last = {}  # by (sender, receiver): the sender's point that has signalled last
        self.count = self.needless = 0
        self.far = self._far_agents(steps)
        for point in self.begin.values():
            point.known = {point.agent: 0}
        points = self._walk(steps)
        self.end = {agent: self._add(agent, len(steps) + 1) for agent in self.agents}
        if choice.turn and program.keys.get("reuse_resources"):
            self._add_credits(steps, points)
        if choice.packets:
            self._end_with_packets(steps)
        else:
            self._end(steps, points)

    def _add(self, agent, number, step=None):
        """A new last point of an agent."""
        self.lists[agent].append(Point(agent, number, step))
        return self.lists[agent][-1]

    def partner(self, agent, rank):
        """The agent of a rank that is told what concerns the whole rank."""
        other = rank, agent[1]
        return other if other in self.lists else (rank, 0)

    def _far_agents(self, steps):
        """For each step through a port, the agent on the other side: the first one there that reads what it puts."""
        far = {}
        for step in steps:
            for other, why in step.before.items():
                if other.port and why == "RAW" and other.target.rank == step.rank:
                    far.setdefault(other, step.agent)
        for step in steps:
            if step.port and step not in far:
                far[step] = self.partner(step.agent, step.target.rank)
        return far

    def _walk(self, steps):
        """Makes a point for each step, with what the step waits for. Returns the points by step."""
        points, peers = {}, collections.defaultdict(set)
        looped = bool(self.choice.turn)
        # An agent meets together all ranks that its steps of one level touch, and in a loop all of them at its begin.
        for step in steps:
            peers[step.agent, None if looped else step.level] |= step.peers()
        if looped:
            for agent in self.agents:
                for rank in sorted(peers[agent, None]):
                    self._meet(self.begin[agent], rank)
        for step in steps:
            point = points[step] = self._add(step.agent, step.number, step)
            # The latest first: who knows of it, knows what came before.
            for other in sorted(step.before, key=lambda o: -o.number):
                self._need(point, points[other])
            if not self.choice.packets and not looped:
                for rank in sorted(peers[step.agent, step.level]):
                    self._meet(point, rank)
            agent = step.agent
            self.known[agent][agent] = step.number
            if step.port:
                self.queued[agent][agent, self.far[step]] = step.number
            point.known, point.queued = dict(self.known[agent]), dict(self.queued[agent])
            point.heard = set(self.heard[agent])
        return points

    def _meet(self, point, rank):
        """A rank must have begun before its memory is touched."""
        if not any(len(key) == 2 and key[0] == rank for key in self.known[point.agent]):
            self._signal(self.begin[self.partner(point.agent, rank)], point)

    def _key(self, point):
        """Whose progress says that a point is done: its agent's, or its port's."""
        return ("port", point.agent, self.far[point.step]) if point.step and point.step.port else point.agent

    def _knows(self, agent, point):
        """Whether an agent knows that a point is done."""
        return self.known[agent].get(self._key(point), -1) >= point.number

    def _need(self, point, other, via=None):
        """At `point` it must be known that `other` is done. The signal is sent at `via`, or else at `other`."""
        agent = point.agent
        if self.choice.packets and point.step and self._by_packet(point.step, other.step):
            self.heard[agent] |= other.heard
            return
        if self._knows(agent, other):
            self.needless += other.agent != agent
            return
        if other.agent == agent:
            far = self.far[other.step]
            point.flush_before.append(far)
            self.known[agent]["port", agent, far] = self.queued[agent][agent, far]
            return
        sender = via or other
        last = self.last.get((sender.agent, agent))
        said = last is not None and last.number >= sender.number
        if said:
            sender = last
        if other.step and other.step.port and self.far[other.step] != agent:
            if self.far[other.step] not in sender.flush_after:
                sender.flush_after.append(self.far[other.step])
            sender.known[self._key(other)] = other.number
        if said:
            self._learn(agent, sender)
        else:
            self._signal(sender, point)

    @staticmethod
    def _by_packet(step, other):
        """Whether packets that `other` writes and `step` reads are all that joins the two."""
        slots = {place for span in other.writes() if span.buffer == "p" for place in span.places()}
        plain = {place for span in other.writes() if span.buffer != "p" for place in span.places()}
        touched = {place for span in [*step.reads(), *step.writes()] for place in span.places()}
        read = {place for span in other.reads() if span.buffer != "p" for place in span.places()}
        written = {place for span in step.writes() for place in span.places()}
        return bool(slots & touched) and not plain & touched and not read & written

    def _signal(self, sender, point):
        """A signal from one point to another."""
        sender.signals.append(point.agent)
        point.waits.append(sender.agent)
        self.last[sender.agent, point.agent] = sender
        self.count += 1
        self._learn(point.agent, sender)

    def _learn(self, agent, sender):
        """An agent hears a signal that was sent at the point `sender`."""
        known = self.known[agent]
        for key, number in sender.known.items():
            known[key] = max(known.get(key, -1), number)
        if (sender.agent, agent) in sender.queued:
            key = "port", sender.agent, agent
            known[key] = max(known.get(key, -1), sender.queued[sender.agent, agent])
        self.heard[agent] |= {key[0] for key in known if len(key) == 2}

    def _end(self, steps, points):
        """A rank's buffers are its application's again once it has ended, so nobody may touch them then."""
        latest = {}  # by rank and whose progress counts: the last step that touches the rank's buffers
        for step in steps:
            for rank in step.peers() | ({step.rank} if step.port else set()):
                latest[rank, self._key(points[step])] = points[step]
        for agent in self.agents:
            self.end[agent].known = {**self.known[agent], agent: len(steps) + 1}
            self.end[agent].queued = dict(self.queued[agent])
        for (rank, _), point in sorted(latest.items(), key=lambda item: (item[0][0], -item[1].number)):
            if any(self._knows(agent, point) for agent in self.agents if agent[0] == rank):
                self.needless += 1
            elif point.agent[0] == rank:
                self._need(self.end[point.agent], point)
            else:
                self._need(self.end[self.partner(point.agent, rank)], point, self.end[point.agent])

    def _add_credits(self, steps, points):
        """Whoever has used a place of the scratch last gives a credit to the agent that writes it first."""
        uses = collections.defaultdict(list)
        for step in steps:
            for span in [*step.reads(), *step.writes()]:
                for place in span.places() if span.buffer == "s" else []:
                    uses[place].append(step)
        pairs = {}  # (giver, taker): the last step of the giver and the first of the taker
        for found in uses.values():
            taker = found[0]
            for step in found:
                if step.port and step.target.rank != step.rank and points[step].flush_after == []:
                    # Its source may be written again in the next turn.
                    points[step].flush_after.append(self.far[step])
                if step.agent != taker.agent:
                    last, first = pairs.get((step.agent, taker.agent), (step, taker))
                    pairs[step.agent, taker.agent] = (max(last, step, key=lambda s: s.number),
                                                      min(first, taker, key=lambda s: s.number))
        for (giver, taker), (last, first) in sorted(pairs.items()):
            points[last].gives.append(taker)
            points[first].takes.append(giver)
            if giver[0] != taker[0]:
                # A semaphore begins with its credits; through a channel they are given before the loop.
                self.begin[giver].gives += [taker] * CREDITS
                self.end[taker].takes += [giver] * CREDITS

    def _end_with_packets(self, steps):
        """Two launches later slots are written again. Who hears that a reader's next launch has begun, may do so."""
        for agent in self.agents:
            for far in sorted({self.far[step] for step in steps if step.port and step.agent == agent}):
                self.end[agent].flush_before.append(far)
        sent = {(step.rank, span.rank) for step in steps for span in step.writes() if span.rank != step.rank}
        heard = {rank: set() for rank, _ in self.agents}
        for agent, ranks in self.heard.items():
            heard[agent[0]] |= ranks
        for sender, reader in sorted(sent):
            if reader not in heard[sender]:
                self._signal(self.begin[reader, 0], self.end[sender, 0])

    def lines(self):
        """Each point that waits or signals, as text."""
        lines = []
        for rank, block in self.agents:
            for point in self.lists[rank, block]:
                what = "begin" if not point.number else "end" if not point.step else f"step {point.number}"
                for word, agents in (("flushes", point.flush_before), ("waits for", point.waits),
                                     ("takes credits of", point.takes), ("flushes afterwards", point.flush_after),
                                     ("signals", point.signals), ("gives credits to", point.gives)):
                    if agents:
                        what += f", {word} " + " and ".join(f"rank {r} block {b}" for r, b in sorted(agents))
                if "," in what:
                    lines.append(f"rank {rank} block {block}, {what}")
        return [*lines, f"{self.count} signals; {self.needless} more would say what is known already"]
