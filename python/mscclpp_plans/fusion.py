"""Makes fewer and larger steps: merges operations on adjacent chunks, and fuses a step with the next one."""
from .graph import Span, link, measure, order


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
    at once. The later operation moves forward, to the place of the earlier one. This is allowed, because order() sorts
    by level: between the two there are only operations of their level, and the later one waits for none of them.
    """
    link(operations)
    merged, last = [], {}  # `last` by rank: the position in `merged` of its last operation
    for operation in order(operations):
        position = last.get(operation.rank)
        if position is not None and merged[position].level == operation.level and _adjoin(merged[position], operation):
            first = merged[position]
            merged[position] = first.alike([span._replace(size=span.size + more.size) for span, more in
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


def fuse(steps, most):
    """Fuses steps as often as possible. Returns the remaining steps, which are linked, and a line for each fusion.

    most: how many sources or targets a step may have. In each round a step is changed at most once. A step that waits
    for a changed step is not changed before the next round, because the links are only made anew at its start.
    """
    lines, changed = [], True
    while changed:
        changed = False
        link(steps)
        gone, touched = set(), set()
        for step in steps:
            if touched & {step, *step.before}:
                continue
            for earlier, why in step.before.items():
                if why == "RAW" and earlier.rank == step.rank and earlier not in touched:
                    text = f"{earlier.number} with {step.number}: {step}"
                    if _take_along(earlier, step, most, gone):
                        lines.append(text)
                        touched |= {earlier, step}
                        changed = True
                        break
        steps = [step for step in steps if step not in gone]
    measure(steps)
    return steps, lines


def _take_along(first, second, most, gone):
    """Makes `first` also do the work of `second`, or `second` read what `first` reads, if the result is the same.

    most: how many sources or targets a step may have. If `first` takes over the work of `second`, `second` is added to
    `gone`, and `first` also waits for the steps for which `second` waited. Returns True if a step was changed.
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
    packed = any(span.buffer == "p" for span in first.sources)
    # No step before `second` has touched the target of `second`, which is its own slot: it waits for `first` only.
    if first.kind == "reduce" and second.kind in ("send", "pack") and packed and 1 + len(first.also) < most:
        if second.kind == "pack" and any(span.rank == first.rank for span in first.also):
            return False
        # The slot of this rank comes before those of its peers.
        first.also = [second.target, *first.also] if second.kind == "pack" else [*first.also, second.target]
        gone.add(second)
        return True
    if first.kind == "reduce" and second.kind == "put" and not packed and 1 + len(first.also) < most:
        first.also.append(second.target)
    # In the next two cases, the target must not be another source of `second`: the fused step would read it before the
    # result of `first` is stored there.
    elif first.kind == "reduce" and second.kind == "reduce" and first.target == second.target and not first.also and \
            len(first.sources) + len(second.sources) - 1 <= most and second.target not in second.sources[1:]:
        first.sources, first.also = [*first.sources, *second.sources[1:]], second.also
    elif first.kind == "copy" and second.kind == "reduce" and first.target == second.target and \
            second.target not in second.sources[1:]:
        first.kind, first.sources, first.also = "reduce", [first.sources[0], *second.sources[1:]], second.also
    else:
        return False
    gone.add(second)
    for other, why in second.before.items():
        if other is not first:
            first.before.setdefault(other, why)
    return True
