"""Ranks and best words of a vocabulary by a causal model, and the word that it would write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from workbench.models.pretrained.network import Contexts, Network, Told
from workbench.models.pretrained.subwords import Ids
from workbench.models.pretrained.trie import ROOT, Found, Search, Trie

_AT_ONCE = 64  # paths of one item in a batch
_LONGEST = 12  # sub-tokens of a word that is written


class Asked(NamedTuple):
    """What is asked about an item.

    Attributes
    ----------
    context : list of int
        The sub-tokens before the word. Where they leave no room for a word, the first are not seen.
    path : list of int
        Those of the answer; empty where there is none.
    word : int or None
        The answer among the words of the vocabulary.
    """

    context: Ids
    path: Ids
    word: int | None


def searched(
    network: Network,
    trie: Trie,
    asked: Sequence[Asked],
    *,
    top_k: int,
    budget: int | None,
    step: Callable[[int], object] = lambda _n: None,
) -> tuple[list[Found], Told]:
    """Search the words of a trie for each item.

    Parameters
    ----------
    network : Network
    trie : Trie
    asked : sequence of Asked (n,)
    top_k, budget
        As :class:`workbench.models.pretrained.trie.Search` has them.
    step : callable, optional
        Is told how many items are done.

    Returns
    -------
    list of Found (n,)
    Told (n,)
        About the answers.
    """
    n = len(asked)
    found: list[Found | None] = [None] * n
    told = Told.nothing(n)
    below = network.tensor(trie.token[trie.children(ROOT)])
    for part, contexts in network.contexts(_seen(network, asked, trie.depth)):
        _answers(network, contexts, asked, part, told)
        first = contexts.first.index_select(1, below).double().cpu().numpy()
        searches = [
            Search(
                trie,
                first[place],
                answer=asked[owner].word,
                value=float(told.log_prob[owner] + told.end[owner]),
                top_k=top_k,
                budget=budget,
            )
            for place, owner in enumerate(part)
        ]
        _run(network, trie, contexts, searches)
        for owner, search in zip(part, searches, strict=True):
            found[owner] = search.found
        step(len(part))
    _mend(network, asked, told, trie.depth)
    return [one for one in found if one is not None], told


def _run(network: Network, trie: Trie, contexts: Contexts, searches: Sequence[Search]) -> None:
    """Ask the model whatever the searches need, for all of them at once."""
    while asked := [(place, *one) for place, search in enumerate(searches) for one in search.take(_AT_ONCE)]:
        paths = [trie.path(node) for _, node, _ in asked]
        for part, logits in network.after(contexts, [place for place, _, _ in asked], paths):
            norm, end = network.endings(logits)
            below = [trie.children(asked[index][1]) for index in part]
            sizes = [len(nodes) for nodes in below]
            rows = network.tensor(np.repeat(np.arange(len(part)), sizes))
            tokens = network.tensor(trie.token[np.concatenate(below)])
            values = (logits[rows, tokens].double() - norm.double()[rows]).cpu().numpy()
            cuts = np.cumsum(sizes)[:-1]
            ends = end.double().cpu().tolist()
            for index, closing, children in zip(part, ends, np.split(values, cuts), strict=True):
                place, node, value = asked[index]
                searches[place].give(node, value, closing, children)


def written(
    network: Network, asked: Sequence[Asked], *, step: Callable[[int], object] = lambda _n: None
) -> tuple[list[Ids], Told]:
    """Let the model write a word: the most probable sub-token, one after the other, until the word is over.

    Returns
    -------
    list of list of int (n,)
        The sub-tokens of the words, 12 at most.
    Told (n,)
        About the answers.
    """
    words: list[Ids] = [[] for _ in asked]
    told = Told.nothing(len(asked))
    for part, contexts in network.contexts(_seen(network, asked, 1)):
        _answers(network, contexts, asked, part, told)
        paths = [[token] for token in contexts.first.argmax(dim=-1).tolist()]
        room = [min(_LONGEST, network.length - len(ids)) for ids in contexts.ids]
        going = [
            place
            for place, owner in enumerate(part)
            if not (asked[owner].path and told.greedy[owner]) and room[place] > 1
        ]
        while going:
            on = []
            for some, logits in network.after(contexts, going, [paths[place] for place in going]):
                for index, token in zip(some, logits.argmax(dim=-1).tolist(), strict=True):
                    place = going[index]
                    if not network.subwords.ends[token]:
                        paths[place].append(token)
                        if len(paths[place]) < room[place]:
                            on.append(place)
            going = on
        for place, owner in enumerate(part):
            words[owner] = asked[owner].path if told.greedy[owner] else paths[place]
        step(len(part))
    _mend(network, asked, told, 1)
    return words, told


def _seen(network: Network, asked: Sequence[Asked], room: int) -> list[Ids]:
    """Return the contexts, without what a word of `room` sub-tokens, or the answer, leaves no room for."""
    return [one.context[-_most(network, one, room) :] for one in asked]


def _most(network: Network, one: Asked, room: int) -> int:
    return max(network.length - max(room, len(one.path)), 1)


def _answers(
    network: Network, contexts: Contexts, asked: Sequence[Asked], part: Sequence[int], told: Told
) -> None:
    """Ask the model about the answers of the items in a batch."""
    there = [place for place, owner in enumerate(part) if asked[owner].path]
    own = network.told(contexts, there, [asked[part[place]].path for place in there])
    told.put([part[place] for place in there], own)


def _mend(network: Network, asked: Sequence[Asked], told: Told, room: int) -> None:
    """Ask once more about answers whose contexts were cut, with as much of them as the model can see."""
    short = [
        place for place, one in enumerate(asked) if one.path and len(one.context) > _most(network, one, room)
    ]
    told.put(short, network.follow([(asked[place].context, asked[place].path) for place in short]))
