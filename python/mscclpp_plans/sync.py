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
    """What an agent does for the sake of others at its begin (number 0), at one step, or at its end (step None).

    waits: agents whose signals it waits for. signals: agents that it signals. Between agents of one rank, semaphores
    do what channels do between ranks. takes, gives: agents that it takes a credit from, or gives one to.
    flush_before, flush_after: agents on the far side of ports; all puts to them have to be done before the step, or
    before the signals. known, queued, heard: the entries of Synchronisation for the agent when it has done this.
    """

    def __init__(self, agent, number, step=None):
        self.agent, self.number, self.step = agent, number, step
        self.waits, self.signals = [], []
        self.takes, self.gives = [], []
        self.flush_before, self.flush_after = [], []
        self.known, self.queued, self.heard = {}, {}, set()


class Synchronisation:
    """Makes the points of each agent, in order, with all signals and waits that the steps need.

    lists: the points, by agent. far: for each step through a port, the agent on the other side. count: how many signals
    there are. needless: how many were left out, since they would say nothing new.
    """

    def __init__(self, program, steps, choice):
        self.program, self.choice = program, choice
        self.agents = sorted({step.agent for step in steps} | {(rank, 0) for rank in range(program.ranks)})
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
        """Appends a point to those of an agent, and returns it. step: None for the begin and the end."""
        self.lists[agent].append(Point(agent, number, step))
        return self.lists[agent][-1]

    def partner(self, agent, rank):
        """Returns the agent that is told what concerns a whole rank: the one with the same block, else block 0."""
        candidate = rank, agent[1]
        return candidate if candidate in self.lists else (rank, 0)

    def _far_agents(self, steps):
        """Returns the agent on the other side for each step through a port.

        It is the first agent there that reads what the step puts; if none does, the partner on that rank.
        """
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
        """Makes a point for each step, and the signals that it waits for. Returns the points by step."""
        points, peers = {}, collections.defaultdict(set)
        looped = bool(self.choice.turn)
        # Before its first step of a level, an agent meets all ranks that its steps of that level touch. In a loop it
        # meets all ranks at its begin.
        for step in steps:
            peers[step.agent, None if looped else step.level] |= step.peers()
        if looped:
            for agent in self.agents:
                for rank in sorted(peers[agent, None]):
                    self._meet(self.begin[agent], rank)
        for step in steps:
            point = points[step] = self._add(step.agent, step.number, step)
            # The latest step comes first: whoever knows that it is done, often knows what came before.
            for other in sorted(step.before, key=lambda earlier: -earlier.number):
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
        """Lets a point wait until a rank has begun, if that is not known: its memory must not be touched before.

        Whoever knows of any agent of the rank knows that. Keys of agents have two entries, those of ports have three.
        """
        if not any(len(key) == 2 and key[0] == rank for key in self.known[point.agent]):
            self._signal(self.begin[self.partner(point.agent, rank)], point)

    def _key(self, point):
        """Returns whose progress says that a point is done: its agent, or the port that its step goes through."""
        return ("port", point.agent, self.far[point.step]) if point.step and point.step.port else point.agent

    def _knows(self, agent, point):
        """Tells whether an agent knows that a point is done."""
        return self.known[agent].get(self._key(point), -1) >= point.number

    def _need(self, point, other, via=None):
        """Sees to it that `other` is done before `point`: by what the agent knows already, a flush, or a signal.

        The signal is sent at the point `via`, or else at `other`. If the agent has had a later signal from the same
        sender, that one serves. It has not told of `other` so far only because a signal tells of puts through a port to
        a third agent only after a flush, which is then added to it.
        """
        agent = point.agent
        if self.choice.packets and point.step and self._by_packet(point.step, other.step):
            self.heard[agent] |= other.heard
            return
        if self._knows(agent, other):
            self.needless += other.agent != agent
            return
        if other.agent == agent:  # what an agent has done itself, it knows, except for puts that its proxy still does
            far = self.far[other.step]
            point.flush_before.append(far)
            self.known[agent]["port", agent, far] = self.queued[agent][agent, far]
            return
        sender = via or other
        last_signal = self.last.get((sender.agent, agent))
        already_sent = last_signal is not None and last_signal.number >= sender.number
        if already_sent:
            sender = last_signal
        if other.step and other.step.port and self.far[other.step] != agent:
            if self.far[other.step] not in sender.flush_after:
                sender.flush_after.append(self.far[other.step])
            sender.known[self._key(other)] = other.number
        if already_sent:
            self._learn(agent, sender)
        else:
            self._signal(sender, point)

    @staticmethod
    def _by_packet(step, other):
        """Tells whether the steps have nothing in common but packets that `other` writes and `step` reads.

        Then no signal is needed: whoever reads a packet waits until it has come.
        """
        slots = {place for span in other.writes() if span.buffer == "p" for place in span.places()}
        plain = {place for span in other.writes() if span.buffer != "p" for place in span.places()}
        touched = {place for span in [*step.reads(), *step.writes()] for place in span.places()}
        read = {place for span in other.reads() if span.buffer != "p" for place in span.places()}
        written = {place for span in step.writes() for place in span.places()}
        return bool(slots & touched) and not plain & touched and not read & written

    def _signal(self, sender, point):
        """Sends a signal at the point `sender`, for which `point` waits."""
        sender.signals.append(point.agent)
        point.waits.append(sender.agent)
        self.last[sender.agent, point.agent] = sender
        self.count += 1
        self._learn(point.agent, sender)

    def _learn(self, agent, sender):
        """Adds what the sender knew at the point `sender`, where it signalled, to what an agent knows.

        The signal also tells of the puts to the agent that the sender had queued then.
        """
        known = self.known[agent]
        for key, number in sender.known.items():
            known[key] = max(known.get(key, -1), number)
        if (sender.agent, agent) in sender.queued:
            key = "port", sender.agent, agent
            known[key] = max(known.get(key, -1), sender.queued[sender.agent, agent])
        self.heard[agent] |= {key[0] for key in known if len(key) == 2}

    def _end(self, steps, points):
        """Sees to it that a rank ends only after all accesses to its buffers, which its application may then use.

        Of each agent or port that makes some, an agent of the rank has to know that they are done. If none does, and
        the port belongs to an agent of the rank, that agent flushes it at its end. Otherwise an agent of the rank
        waits, at its end, for a signal that the other agent sends at its own.
        """
        # By rank, and by the agent or port that makes accesses: the last step with an access to the rank's buffers. A
        # rank's own agents count only with their ports, whose proxy may still read the source of a put.
        latest = {}
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
        """Adds credits for a scratch that the turns of a loop use again and again.

        The agent that writes a place first in a turn (the taker) needs a credit from every other agent that uses the
        place (the givers). One credit serves all places that a giver and a taker share: the giver gives it after its
        last use of any of them, and the taker takes it before its first.
        """
        uses = collections.defaultdict(list)  # by place of the scratch: the steps that use it, in order
        for step in steps:
            for span in [*step.reads(), *step.writes()]:
                for place in span.places() if span.buffer == "s" else []:
                    uses[place].append(step)
        exchanges = {}  # by (giver, taker): the last step of the giver, and the first of the taker
        for place_steps in uses.values():
            taker = place_steps[0]  # the first use is a write
            for step in place_steps:
                if step.port and step.target.rank != step.rank and points[step].flush_after == []:
                    # The proxy may still read the source of a put, which the next turn may write.
                    points[step].flush_after.append(self.far[step])
                if step.agent != taker.agent:
                    last, first = exchanges.get((step.agent, taker.agent), (step, taker))
                    exchanges[step.agent, taker.agent] = (max(last, step, key=lambda one: one.number),
                                                     min(first, taker, key=lambda one: one.number))
        for (giver, taker), (last, first) in sorted(exchanges.items()):
            points[last].gives.append(taker)
            points[first].takes.append(giver)
            if giver[0] != taker[0]:
                # A semaphore has its credits as its initial value. A channel gets them before the loop, and loses them
                # after it.
                self.begin[giver].gives += [taker] * CREDITS
                self.end[taker].takes += [giver] * CREDITS

    def _end_with_packets(self, steps):
        """Sees to it that no slot of packets is written again before its reader has read it.

        Launches use two halves of the slots in turn. A sender that has heard in the launch between that the reader has
        begun may write: the reader has then ended the launch before. So senders that nothing else tells get a signal.
        The slots that a proxy reads are flushed before the launch ends.
        """
        for agent in self.agents:
            for far in sorted({self.far[step] for step in steps if step.port and step.agent == agent}):
                self.end[agent].flush_before.append(far)
        # From each sender of packets to each of their readers.
        routes = {(step.rank, span.rank) for step in steps for span in step.writes() if span.rank != step.rank}
        heard_by_rank = {rank: set() for rank, _ in self.agents}
        for agent, ranks in self.heard.items():
            heard_by_rank[agent[0]] |= ranks
        for sender, reader in sorted(routes):
            if reader not in heard_by_rank[sender]:
                self._signal(self.begin[reader, 0], self.end[sender, 0])

    def lines(self):
        """Returns a line for each point that waits, signals, flushes or exchanges credits, and one with the counts."""
        lines = []
        for rank, block in self.agents:
            for point in self.lists[rank, block]:
                text = "begin" if not point.number else "end" if not point.step else f"step {point.number}"
                for word, agents in (("flushes", point.flush_before), ("waits for", point.waits),
                                     ("takes credits of", point.takes), ("flushes afterwards", point.flush_after),
                                     ("signals", point.signals), ("gives credits to", point.gives)):
                    if agents:
                        text += f", {word} " + " and ".join(f"rank {r} block {b}" for r, b in sorted(agents))
                if "," in text:
                    lines.append(f"rank {rank} block {block}, {text}")
        return [*lines, f"{self.count} signals; {self.needless} more would say what is known already"]
