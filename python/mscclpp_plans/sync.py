"""Derives the signals and waits that steps need, and leaves out signals that contain no new information.

An agent is one block of threads: (rank, block). It carries out its steps in the order of their numbers.

The knowledge of an agent is, for each other agent, the number of the last step that is certainly done. With a signal,
the receiver gets all knowledge of the sender. A wait is left out if the agent already knows that the step is done.

A proxy carries out a put some time after the request of the block. So the port of an agent is treated as a separate
agent. A signal through the port tells the peer that all earlier puts through this port are done. A flush tells the same
to the agent itself.

A step only waits for steps with smaller numbers. So there cannot be a cycle of waiting agents, and the first wait on a
channel belongs to its first signal, the second wait to the second signal, and so on.

In a loop each turn works on its own part of every chunk, so turns need not wait for one another. The exception is a
scratch that is shorter than the chunks, which the turns use as a ring. In this case, the agent that writes a place
first in a turn needs a credit from every other agent that uses the place in a turn. The loop begins with CREDITS
credits of each kind, so this many turns can run at the same time.
"""
import collections

CREDITS = 2


class Point:
    """The synchronisation of an agent at its begin (number 0), at one step, or at its end (step None).

    waits: agents for whose signals it waits. signals: agents to which it sends signals. Agents of the same rank use
    semaphores instead of channels. credits_from, credits_to: agents from which it takes a credit, or to which it gives
    one. flush_before, flush_after: agents on the other side of ports; all puts to them have to be done before the step,
    or before the signals. known, last_puts, begun_ranks: the entries of Synchronisation for the agent after this point.
    """

    def __init__(self, agent, number, step=None):
        self.agent, self.number, self.step = agent, number, step
        self.waits, self.signals = [], []
        self.credits_from, self.credits_to = [], []
        self.flush_before, self.flush_after = [], []
        self.known, self.last_puts, self.begun_ranks = {}, {}, set()


class Synchronisation:
    """Makes the points of each agent, with all signals and waits that the steps need.

    agent_points: the points of each agent, in order. far_agents: for each step through a port, the agent on the other
    side. signal_count: the number of signals. omitted: the number of signals that were left out, because the receiver
    already has the information.
    """

    def __init__(self, program, steps, choice):
        self.program, self.choice = program, choice
        self.agents = sorted({step.agent for step in steps} | {(rank, 0) for rank in range(program.ranks)})
        self.agent_points = {agent: [] for agent in self.agents}
        self.begin = {agent: self._add(agent, 0) for agent in self.agents}
        # Three dictionaries by agent. The keys of `known` are described at _key.
        self.known = {agent: {agent: 0} for agent in self.agents}  # by agent or port: its last step known to be done
        self.begun_ranks = {agent: {agent[0]} for agent in self.agents}  # known to have begun, from signals or packets
        self.last_puts = {agent: {} for agent in self.agents}  # by (agent, far agent): the step of the last put
        self.last_signals = {}  # by (sender, receiver): the sender's point that has sent the last signal
        self.signal_count = self.omitted = 0
        self.far_agents = self._find_far_agents(steps)
        for point in self.begin.values():
            point.known = {point.agent: 0}
        points = self._add_steps(steps)
        self.end = {agent: self._add(agent, len(steps) + 1) for agent in self.agents}
        if choice.turn and program.keys.get("reuse_resources"):
            self._add_credits(steps, points)
        if choice.packets:
            self._end_with_packets(steps)
        else:
            self._end_with_signals(steps, points)

    def _add(self, agent, number, step=None):
        """Appends a point to the points of an agent, and returns it. step: None for the begin and the end."""
        self.agent_points[agent].append(Point(agent, number, step))
        return self.agent_points[agent][-1]

    def partner(self, agent, rank):
        """Returns the agent that represents a whole rank for `agent`: the same block of this rank, or else block 0."""
        candidate = rank, agent[1]
        return candidate if candidate in self.agent_points else (rank, 0)

    def _find_far_agents(self, steps):
        """Returns the agent on the other side for each step through a port.

        It is the first agent of the target's rank that reads the data of the step, or the partner on that rank if no
        agent reads them.
        """
        far_agents = {}
        for step in steps:
            for other, reason in step.before.items():
                if other.port and reason == "RAW" and other.target.rank == step.rank:
                    far_agents.setdefault(other, step.agent)
        for step in steps:
            if step.port and step not in far_agents:
                far_agents[step] = self.partner(step.agent, step.target.rank)
        return far_agents

    def _add_steps(self, steps):
        """Makes a point for each step, and the signals for which the step waits. Returns the points by step."""
        points, peers = {}, collections.defaultdict(set)
        looped = bool(self.choice.turn)
        # An agent waits until ranks have begun before its first step of a level that touches their memory. In a loop it
        # waits for the ranks of all levels at its begin. With packets it waits for none: see _end_with_packets.
        for step in steps:
            peers[step.agent, None if looped else step.level] |= step.peers()
        if looped:
            for agent in self.agents:
                for rank in sorted(peers[agent, None]):
                    self._ensure_begun(self.begin[agent], rank)
        for step in steps:
            point = points[step] = self._add(step.agent, step.number, step)
            # The latest step comes first, because its signal often also tells that earlier steps are done.
            for other in sorted(step.before, key=lambda earlier: -earlier.number):
                self._ensure_done(point, points[other])
            if not self.choice.packets and not looped:
                for rank in sorted(peers[step.agent, step.level]):
                    self._ensure_begun(point, rank)
            agent = step.agent
            self.known[agent][agent] = step.number
            if step.port:
                self.last_puts[agent][agent, self.far_agents[step]] = step.number
            point.known, point.last_puts = dict(self.known[agent]), dict(self.last_puts[agent])
            point.begun_ranks = set(self.begun_ranks[agent])
        return points

    def _ensure_begun(self, point, rank):
        """Makes a point wait until a rank has begun, unless this is known: the rank's memory must not be used before.

        An agent that knows anything about an agent of the rank also knows that the rank has begun. Keys of agents have
        two entries, and keys of ports have three.
        """
        if not any(len(key) == 2 and key[0] == rank for key in self.known[point.agent]):
            self._signal(self.begin[self.partner(point.agent, rank)], point)

    def _key(self, point):
        """Returns the key in `known` that shows that a point is done: its agent, or the port of its step.

        An agent is (rank, block), and a port is ("port", agent, far agent).
        """
        return ("port", point.agent, self.far_agents[point.step]) if point.step and point.step.port else point.agent

    def _knows(self, agent, point):
        """Returns True if an agent knows that a point is done."""
        return self.known[agent].get(self._key(point), -1) >= point.number

    def _ensure_done(self, point, other, signal_point=None):
        """Makes sure that `other` is done before `point`: from the agent's knowledge, with a flush, or with a signal.

        The signal is sent at the point `signal_point`, or else at `other`. If the agent has already received a later
        signal from the same sender, no new signal is necessary. In this case `other` is a put through a port to a third
        agent: a signal only tells about such puts if they were flushed before, so a flush is added before that signal.
        """
        agent = point.agent
        if self.choice.packets and point.step and self._by_packet(point.step, other.step):
            self.begun_ranks[agent] |= other.begun_ranks
            return
        if self._knows(agent, other):
            self.omitted += other.agent != agent
            return
        if other.agent == agent:  # an agent knows its own steps, so `other` is a put that its proxy may not have done
            far_agent = self.far_agents[other.step]
            point.flush_before.append(far_agent)
            self.known[agent]["port", agent, far_agent] = self.last_puts[agent][agent, far_agent]
            return
        sender = signal_point or other
        last_signal = self.last_signals.get((sender.agent, agent))
        already_sent = last_signal is not None and last_signal.number >= sender.number
        if already_sent:
            sender = last_signal
        if other.step and other.step.port and self.far_agents[other.step] != agent:
            if self.far_agents[other.step] not in sender.flush_after:
                sender.flush_after.append(self.far_agents[other.step])
            sender.known[self._key(other)] = other.number
        if already_sent:
            self._add_knowledge(agent, sender)
        else:
            self._signal(sender, point)

    @staticmethod
    def _by_packet(step, other):
        """Returns True if `step` depends on `other` only through packets that `other` writes and `step` reads.

        No signal is then necessary, because the reader of a packet waits until the packet has arrived.
        """
        packet_writes = {place for span in other.writes() if span.buffer == "p" for place in span.places()}
        plain_writes = {place for span in other.writes() if span.buffer != "p" for place in span.places()}
        plain_reads = {place for span in other.reads() if span.buffer != "p" for place in span.places()}
        accesses = {place for span in [*step.reads(), *step.writes()] for place in span.places()}
        writes = {place for span in step.writes() for place in span.places()}
        return bool(packet_writes & accesses) and not plain_writes & accesses and not plain_reads & writes

    def _signal(self, sender, point):
        """Sends a signal at the point `sender`, for which `point` waits."""
        sender.signals.append(point.agent)
        point.waits.append(sender.agent)
        self.last_signals[sender.agent, point.agent] = sender
        self.signal_count += 1
        self._add_knowledge(point.agent, sender)

    def _add_knowledge(self, agent, sender):
        """Adds the knowledge of a sender at the point `sender`, where it signals, to the knowledge of an agent.

        The signal also tells that the puts to the agent that the sender had queued before are done.
        """
        known = self.known[agent]
        for key, number in sender.known.items():
            known[key] = max(known.get(key, -1), number)
        if (sender.agent, agent) in sender.last_puts:
            key = "port", sender.agent, agent
            known[key] = max(known.get(key, -1), sender.last_puts[sender.agent, agent])
        self.begun_ranks[agent] |= {key[0] for key in known if len(key) == 2}

    def _end_with_signals(self, steps, points):
        """Makes sure that a rank ends only after all accesses to its buffers, which its application may then use.

        For each agent or port that accesses the buffers, an agent of the rank has to know that the accesses are done.
        If no agent knows this, and the port belongs to an agent of the rank, this agent flushes the port at its end.
        Otherwise an agent of the rank waits, at its end, for a signal that the other agent sends at its own end.
        """
        # By rank, and by the agent or port with accesses: the last step with an access to the rank's buffers. Agents of
        # the rank itself are only included with their ports, whose proxy may still read the source of a put.
        latest = {}
        for step in steps:
            for rank in step.peers() | ({step.rank} if step.port else set()):
                latest[rank, self._key(points[step])] = points[step]
        for agent in self.agents:
            self.end[agent].known = {**self.known[agent], agent: len(steps) + 1}
            self.end[agent].last_puts = dict(self.last_puts[agent])
        for (rank, _), point in sorted(latest.items(), key=lambda item: (item[0][0], -item[1].number)):
            if any(self._knows(agent, point) for agent in self.agents if agent[0] == rank):
                self.omitted += 1
            elif point.agent[0] == rank:
                self._ensure_done(self.end[point.agent], point)
            else:
                self._ensure_done(self.end[self.partner(point.agent, rank)], point, self.end[point.agent])

    def _add_credits(self, steps, points):
        """Adds credits for a scratch that the turns of a loop use repeatedly.

        The agent that writes a place first in a turn (the taker) needs a credit from every other agent that uses the
        place (the givers). One credit serves all places that a giver and a taker share: the giver gives the credit
        after its last use of any of these places, and the taker takes it before its first use.
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
                    points[step].flush_after.append(self.far_agents[step])
                if step.agent != taker.agent:
                    last, first = exchanges.get((step.agent, taker.agent), (step, taker))
                    exchanges[step.agent, taker.agent] = (max(last, step, key=lambda one: one.number),
                                                     min(first, taker, key=lambda one: one.number))
        for (giver, taker), (last, first) in sorted(exchanges.items()):
            points[last].credits_to.append(taker)
            points[first].credits_from.append(giver)
            if giver[0] != taker[0]:
                # The initial value of a semaphore is its number of credits. For a channel, the giver signals the
                # credits before the loop, and the taker waits for the remaining credits after the loop.
                self.begin[giver].credits_to += [taker] * CREDITS
                self.end[taker].credits_from += [giver] * CREDITS

    def _end_with_packets(self, steps):
        """Makes sure that no slot of packets is written again before its reader has read it.

        Launches use the two halves of the slots in turn. A sender may write into a slot again if, in the launch
        between, it has learnt that the reader has begun this launch: the reader has then ended the launch before. So a
        sender that does not learn this from anything else gets a signal. The slots that a proxy reads are flushed
        before the launch ends.
        """
        for agent in self.agents:
            for far_agent in sorted({self.far_agents[step] for step in steps if step.port and step.agent == agent}):
                self.end[agent].flush_before.append(far_agent)
        # (rank of a sender of packets, rank of a reader of these packets)
        routes = {(step.rank, span.rank) for step in steps for span in step.writes() if span.rank != step.rank}
        known_by_rank = {rank: set() for rank, _ in self.agents}
        for agent, ranks in self.begun_ranks.items():
            known_by_rank[agent[0]] |= ranks
        for sender, reader in sorted(routes):
            if reader not in known_by_rank[sender]:
                self._signal(self.begin[reader, 0], self.end[sender, 0])

    def lines(self):
        """Returns a line for each point that waits, signals, flushes or exchanges credits, and one with the counts."""
        lines = []
        for rank, block in self.agents:
            for point in self.agent_points[rank, block]:
                text = "begin" if not point.number else "end" if not point.step else f"step {point.number}"
                for word, agents in (("flushes", point.flush_before), ("waits for", point.waits),
                                     ("takes credits of", point.credits_from),
                                     ("flushes afterwards", point.flush_after), ("signals", point.signals),
                                     ("gives credits to", point.credits_to)):
                    if agents:
                        text += f", {word} " + " and ".join(f"rank {r} block {b}" for r, b in sorted(agents))
                if "," in text:
                    lines.append(f"rank {rank} block {block}, {text}")
        return [*lines, f"{self.signal_count} signals; {self.omitted} more would say what is known already"]
