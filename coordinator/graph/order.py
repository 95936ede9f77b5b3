"""Order and cycles of a dependency graph, given as what each node needs. Pure, linear, without recursion.

Needed ids that are no nodes of the graph are passed over.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def find_cycle(needs: Mapping[N, Iterable[N]]) -> list[N] | None:
    """A cycle as the path along it (first node repeated at the end), or None."""
    done: set[N] = set()
    for root in needs:
        path: list[N] = []
        on_path: set[N] = set()
        stack: list[tuple[N, bool]] = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                path.pop()
                on_path.discard(node)
                done.add(node)
                continue
            if node in on_path:
                return [*path[path.index(node) :], node]
            if node in done or node not in needs:
                continue
            path.append(node)
            on_path.add(node)
            stack.append((node, True))
            stack.extend((n, False) for n in needs[node])
    return None


def cycles(needs: Mapping[N, Iterable[N]]) -> list[tuple[list[N], list[N]]]:
    """The groups of nodes that all need each other, each with the path along one cycle in it.

    Nodes that merely wait for such a group, or that it waits for, are in none.
    """
    if not any(needs.values()):  # as in most turns
        return []
    found = []
    for members in _components(needs):
        group = set(members)
        inside = {n: [m for m in needs[n] if m in group] for n in members}
        if (path := find_cycle(inside)) is not None:
            found.append((members, path))
    return found


def dependents(needs: Mapping[N, Iterable[N]]) -> dict[N, list[N]]:
    """The graph turned round: who needs each node, in given order."""
    turned: dict[N, list[N]] = {node: [] for node in needs}
    for node, wanted in needs.items():
        for other in dict.fromkeys(wanted):
            if other in turned:
                turned[other].append(node)
    return turned


def topological(needs: Mapping[N, Iterable[N]]) -> list[N]:
    """The nodes after all that they need (Kahn's algorithm); those in or behind a cycle are left out."""
    turned = dependents(needs)
    missing = {node: len({m for m in wanted if m in turned}) for node, wanted in needs.items()}
    order = [node for node, count in missing.items() if count == 0]
    for node in order:
        for dependent in turned[node]:
            missing[dependent] -= 1
            if missing[dependent] == 0:
                order.append(dependent)
    return order


def _components(needs: Mapping[N, Iterable[N]]) -> list[list[N]]:
    """Strongly connected components (Tarjan's algorithm), members of each in the graph's order."""
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    open_nodes: list[N] = []
    is_open: set[N] = set()
    components: list[set[N]] = []
    for root in needs:
        if root in index:
            continue
        work = [(root, iter(needs[root]))]
        index[root] = low[root] = len(index)
        open_nodes.append(root)
        is_open.add(root)
        while work:
            node, children = work[-1]
            for child in children:
                if child not in needs:
                    continue
                if child not in index:
                    index[child] = low[child] = len(index)
                    open_nodes.append(child)
                    is_open.add(child)
                    work.append((child, iter(needs[child])))
                    break
                if child in is_open:
                    low[node] = min(low[node], index[child])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    components.append(_closed(node, open_nodes, is_open))
    place = {node: i for i, node in enumerate(needs)}
    return [sorted(members, key=place.__getitem__) for members in components]


def _closed(root: N, open_nodes: list[N], is_open: set[N]) -> set[N]:
    members: set[N] = set()
    while root not in members:
        member = open_nodes.pop()
        is_open.discard(member)
        members.add(member)
    return members
