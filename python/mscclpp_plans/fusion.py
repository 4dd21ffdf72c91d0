"""Makes fewer and larger steps: merges operations on adjacent chunks, and fuses a step with the next one."""
from .graph import Span, link, set_levels, sort_by_level


def split(operations):
    """Returns operations on one chunk each, which can be divided into instances and turns."""
    parts = []
    for operation in operations:
        for offset in range(operation.target.size):
            parts.append(operation.alike([Span(span.rank, span.buffer, span.index + offset)
                                          for span in operation.sources],
                                         operation.target._replace(index=operation.target.index + offset, size=1)))
    return parts


def merge(operations):
    """Merges operations on adjacent chunks. Returns all operations in an order in which they can be carried out.

    Only operations of the same rank and level are merged: they do not depend on each other, so they can be carried out
    at once. The later operation moves forward, to the position of the earlier one. This is allowed, because the
    operations are sorted by level: between the two there are only operations of their level, and the later one waits
    for none of them.
    """
    link(operations)
    merged, last = [], {}  # `last` by rank: the position in `merged` of its last operation
    for operation in sort_by_level(operations):
        position = last.get(operation.rank)
        if position is not None and merged[position].level == operation.level and _adjoin(merged[position], operation):
            first = merged[position]
            merged[position] = first.alike([span._replace(size=span.size + next_span.size) for span, next_span in
                                      zip(first.sources, operation.sources)],
                                     first.target._replace(size=first.target.size + operation.target.size))
            merged[position].level = first.level
        else:
            last[operation.rank] = len(merged)
            merged.append(operation)
    return merged


def _adjoin(first, second):
    """Returns True if two operations are of the same kind and have adjacent spans, so that they can be merged."""
    def follows(span, next_span):
        """Returns True if `next_span` begins where `span` ends, in the same buffer."""
        return span[:2] == next_span[:2] and span.index + span.size == next_span.index

    return (first.kind, first.rank, len(first.sources)) == (second.kind, second.rank, len(second.sources)) and \
        all(map(follows, [*first.sources, first.target], [*second.sources, second.target]))


def fuse(steps, max_operands):
    """Fuses steps as often as possible. Returns the remaining steps, which are linked, and a line for each fusion.

    max_operands: how many sources, or targets, a step may have. In each round a step is changed at most once. A step
    that waits for a changed step is not changed in the same round, because its links may be outdated: they are made
    anew at the start of each round.
    """
    lines, changed = [], True
    while changed:
        changed = False
        link(steps)
        removed, changed_steps = set(), set()
        for step in steps:
            if changed_steps & {step, *step.before}:
                continue
            for earlier, reason in step.before.items():
                if reason == "RAW" and earlier.rank == step.rank and earlier not in changed_steps:
                    text = f"{earlier.number} with {step.number}: {step}"
                    if _fuse_pair(earlier, step, max_operands, removed):
                        lines.append(text)
                        changed_steps |= {earlier, step}
                        changed = True
                        break
        steps = [step for step in steps if step not in removed]
    set_levels(steps)
    return steps, lines


def _fuse_pair(first, second, max_operands, removed):
    """Makes `first` also do the work of `second`, or `second` read what `first` reads, if the result is the same.

    max_operands: how many sources, or targets, a step may have. If `first` takes over the work of `second`, `second` is
    added to `removed`, and `first` also waits for the steps for which `second` waited. Returns True if a step was
    changed.
    """
    if first.target != second.sources[0]:
        return False
    if any(other is not first and other.number > first.number for other in second.before):
        return False
    # From here on `second` waits for `first` and for steps before it only, so it could be done together with `first`.
    if second.kind == "send" and first.kind == "unpack":
        # No step between the two has changed the span, so the packets themselves can be forwarded at once. Both steps
        # remain.
        second.kind, second.sources = "pass", [first.sources[0]]
        return True
    reads_packets = any(span.buffer == "p" for span in first.sources)
    has_room = 1 + len(first.also) < max_operands  # for one more target
    # No step before `second` has touched the target of `second`, which is its own slot: it waits for `first` only.
    if first.kind == "reduce" and second.kind in ("send", "pack") and reads_packets and has_room:
        if second.kind == "pack" and any(span.rank == first.rank for span in first.also):
            return False
        # The slot of this rank comes before those of its peers.
        first.also = [second.target, *first.also] if second.kind == "pack" else [*first.also, second.target]
        removed.add(second)
        return True
    if first.kind == "reduce" and second.kind == "put" and not reads_packets and has_room:
        first.also.append(second.target)
    # In the next two cases, the target must not be another source of `second`: the fused step would read it before the
    # result of `first` is stored there.
    elif first.kind == "reduce" and second.kind == "reduce" and first.target == second.target and not first.also and \
            len(first.sources) + len(second.sources) - 1 <= max_operands and second.target not in second.sources[1:]:
        first.sources, first.also = [*first.sources, *second.sources[1:]], second.also
    elif first.kind == "copy" and second.kind == "reduce" and first.target == second.target and \
            second.target not in second.sources[1:]:
        first.kind, first.sources, first.also = "reduce", [first.sources[0], *second.sources[1:]], second.also
    else:
        return False
    removed.add(second)
    for other, reason in second.before.items():
        if other is not first:
            first.before.setdefault(other, reason)
    return True
