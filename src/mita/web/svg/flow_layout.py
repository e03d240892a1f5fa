"""Where the nodes of a graph go: in layers from top to bottom, each below all that it comes after.

The layer of a node is the length of the longest path to it, or a lower one if that is full. Within
a layer, nodes are ordered by the average place of their neighbours, so that few edges cross; edges
that pass a layer have a place in it, too, so that they do not run through nodes. Nodes of one layer
never overlap."""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

NODE_WIDTH_PIXELS = 212
NODE_HEIGHT_PIXELS = 46
_GAP_PIXELS = 20  # between two nodes of a layer
_BEND_GAP_PIXELS = 6  # beside an edge that passes a layer
_LAYER_NODES = 5  # side by side; more of them are in the layers below
_BEND_WIDTH_PIXELS = 4  # the room of an edge that passes a layer
_LAYER_GAP_PIXELS = 40
MARGIN_PIXELS = 10
_LAYOUT_SWEEPS = 6  # through all layers, down and up
_MOST_BENDS = 3000  # with more, edges run straight


class Spot(Struct):
    """A node, or a bend of an edge that passes a layer: its layer, the middle of it, and its
    width. `above` and `below` are its neighbours."""

    layer: int
    width: float
    x: float = 0.0
    above: list[int] = []
    below: list[int] = []


class FlowLayout(Struct, frozen=True):
    """The spots of all nodes, and of bends after them; the edges as rows of spots from top to
    bottom; and the size of the whole."""

    spots: list[Spot]
    edges: list[list[int]]
    width: float
    height: float

    def top(self, spot: int) -> float:
        """The upper edge of a spot, in pixels."""
        row = NODE_HEIGHT_PIXELS + _LAYER_GAP_PIXELS
        return MARGIN_PIXELS + self.spots[spot].layer * row


Order: TypeAlias = list[list[int]]


def flow_layout(before: Sequence[set[int]]) -> FlowLayout:
    """Place as many nodes as there are sets. Each set has the numbers of the nodes that the node
    comes after; they are smaller than its own."""
    layers = _layers(before)
    spots = [Spot(layer, NODE_WIDTH_PIXELS) for layer in layers]
    edges = _edges(spots, before)
    order: Order = [[] for _ in range(max(layers, default=-1) + 1)]
    for number, spot in enumerate(spots):
        order[spot.layer].append(number)
    _reorder(spots, order)
    _place(spots, order)
    left = min((spot.x - spot.width / 2 for spot in spots), default=0.0)
    for spot in spots:
        spot.x += MARGIN_PIXELS - left
    right = max((spot.x + spot.width / 2 for spot in spots), default=0.0)
    high = len(order) * (NODE_HEIGHT_PIXELS + _LAYER_GAP_PIXELS) - _LAYER_GAP_PIXELS
    return FlowLayout(spots, edges, right + MARGIN_PIXELS, max(high, 0) + 2 * MARGIN_PIXELS)


def _layers(before: Sequence[set[int]]) -> list[int]:
    """The layer of each node: below all that it comes after, in the first layer that has room."""
    longest: list[int] = []
    for after in before:
        longest.append(max((longest[one] + 1 for one in after), default=0))
    layers, members = [0] * len(before), Counter[int]()
    for node in sorted(range(len(before)), key=longest.__getitem__):
        layer = max((layers[one] + 1 for one in before[node]), default=0)
        while members[layer] == _LAYER_NODES:
            layer += 1
        members[layer] += 1
        layers[node] = layer
    return layers


def _edges(spots: list[Spot], before: Sequence[set[int]]) -> list[list[int]]:
    """All edges, with a bend in every layer that they pass."""
    pairs = [(first, last) for last, after in enumerate(before) for first in sorted(after)]
    bends = sum(spots[last].layer - spots[first].layer - 1 for first, last in pairs)
    found = []
    for first, last in pairs:
        path = [first]
        if bends <= _MOST_BENDS:
            for layer in range(spots[first].layer + 1, spots[last].layer):
                path.append(len(spots))
                spots.append(Spot(layer, _BEND_WIDTH_PIXELS))
        path.append(last)
        for one, other in pairwise(path):
            spots[one].below.append(other)
            spots[other].above.append(one)
        found.append(path)
    return found


# ---------------------------------------------------------------- the order within a layer


def _reorder(spots: Sequence[Spot], order: Order) -> None:
    """Sort each layer by the average place of the neighbours above, then below, and so on. The
    order with the fewest crossings stays."""
    best, fewest = [list(layer) for layer in order], _crossings(spots, order)
    for sweep in range(_LAYOUT_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        places = {spot: at for layer in order for at, spot in enumerate(layer)}
        for layer in order if down else reversed(order):
            layer.sort(key=_barycentre(spots, places, down=down))
            places.update((spot, at) for at, spot in enumerate(layer))
        crossings = _crossings(spots, order)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in order], crossings
    order[:] = best


def _barycentre(
    spots: Sequence[Spot], places: dict[int, int], *, down: bool
) -> Callable[[int], float]:
    def place(spot: int) -> float:
        near = spots[spot].above if down else spots[spot].below
        return sum(places[one] for one in near) / len(near) if near else places[spot]

    return place


def _crossings(spots: Sequence[Spot], order: Order) -> int:
    """How often edges between neighbouring layers cross each other."""
    places = {spot: at for layer in order for at, spot in enumerate(layer)}
    found = 0
    for layer in order:
        ends: list[int] = []  # of the edges so far, sorted
        for spot in layer:
            mine = sorted(places[one] for one in spots[spot].below)
            found += sum(len(ends) - bisect_right(ends, end) for end in mine)
            for end in mine:
                insort(ends, end)
    return found


# ---------------------------------------------------------------- places


def _place(spots: Sequence[Spot], order: Order) -> None:
    """Move each spot towards the middle of its neighbours, as far as its layer has room."""
    for layer in order:
        _spread(spots, layer, [0.0] * len(layer))
    for sweep in range(_LAYOUT_SWEEPS):
        down = sweep % 2 == 0
        for layer in order if down else reversed(order):
            _spread(spots, layer, [_wanted(spots, spot, down=down) for spot in layer])


def _wanted(spots: Sequence[Spot], spot: int, *, down: bool) -> float:
    near = spots[spot].above if down else spots[spot].below
    return sum(spots[one].x for one in near) / len(near) if near else spots[spot].x


def _spread(spots: Sequence[Spot], layer: Sequence[int], wanted: Sequence[float]) -> None:
    """Place the spots of a layer in their order, without overlaps, near where they want to be: the
    average of pushing all to the right and pushing all to the left."""
    right: list[float] = []
    for at, spot in enumerate(layer):
        least = right[-1] + _apart(spots, layer[at - 1], spot) if right else wanted[at]
        right.append(max(wanted[at], least))
    left: list[float] = []
    for at in range(len(layer) - 1, -1, -1):
        most = left[-1] - _apart(spots, layer[at], layer[at + 1]) if left else wanted[at]
        left.append(min(wanted[at], most))
    for spot, low, high in zip(layer, reversed(left), right, strict=True):
        spots[spot].x = (low + high) / 2


def _apart(spots: Sequence[Spot], one: int, other: int) -> float:
    are_nodes = spots[one].width == spots[other].width == NODE_WIDTH_PIXELS
    gap = _GAP_PIXELS if are_nodes else _BEND_GAP_PIXELS
    return (spots[one].width + spots[other].width) / 2 + gap
