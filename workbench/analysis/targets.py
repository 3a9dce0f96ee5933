"""The features of an item and its target: one row of the annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.analysis import mentions, speech
from workbench.analysis.lemmas import any_same_root, default, fold_case
from workbench.items.items import Item, Span
from workbench.items.tokens import Tokens, tokens

CLASS_OF_TAG = {"PROPN": "PN", "NOUN": "CN", "VERB": "V", "AUX": "V", "ADJ": "J", "ADV": "R"}
"""Class of the target by its UPOS tag (Paperno et al. 2016, Figure 2); all others are O."""

_OPENING = frozenset({"``", "`", "“", "‘", "„", "«"})  # noqa: RUF001 - typographic quotes are meant
_QUOTES = _OPENING | {"''", "'", '"', "”", "’", "»"}  # noqa: RUF001
_FOLLOWING = frozenset({",", ".", "!", "?", ";", ":", "--", "...", "-", "—", "…"}) | _QUOTES
_INTERJECTIONS = frozenset(
    """ah aha alas bye damn dammit goodbye goodnight hello hey hi ho howdy huh indeed nay nope no o oh okay ok
    ow please right shh shit sorry sure thanks ugh uh um well whoa why wow yeah yep yes""".split()  # noqa: SIM905
)
_ADDRESSES = frozenset(
    """aunt auntie babe baby boss boy boyo boys bro brother buddy captain chief child children colonel comrade
    comrades dad daddy darling daughter dear dearest doc doctor dude father fellas fellow fellows folks friend
    friends general gentleman gentlemen girl girls governor grandfather grandma grandmother grandpa granny
    guys highness honey honour honor kid kiddo kids king lad ladies lads lady lass lieutenant lord lordship
    love ma ma'am madam madame mademoiselle majesty major mama man mate mates master men milady milord miss
    missus mister mistress mom momma mommy monsieur mother mum mummy nephew niece nurse officer old pa pal
    papa partner pet princess prince professor pumpkin queen reverend sergeant sir sire sis sister sisters son
    stranger sugar sweetheart sweetie sweet uncle""".split()  # noqa: SIM905
)
_BEFORE = frozenset(  # what stands between the comma and the one who is addressed
    "dear dearest fellow good little my old our poor sweet young your".split()  # noqa: SIM905
)
_OWNERS = frozenset({"her", "his", "my", "our", "their", "your", "'s", "the", "a", "an"})
_TITLES = frozenset(
    """capt. captain col. colonel count countess cpl. dr. duchess duke father fr. gen. general inspector
    judge king lady lieutenant lord lt. madam madame major master miss mister mr mr. mrs mrs. ms ms. officer
    president prince princess prof. professor queen rev. saint sergeant sgt. sir st. the uncle aunt""".split()  # noqa: SIM905
)
_LEADING = (_TITLES | _BEFORE) - {"the"}


def target_features(
    item: Item,
    tags: Sequence[str] | None,
    lemma: str | None = None,
    *,
    cut: Tokens | None = None,
) -> dict[str, Any]:
    """Compute one row of the annotations.

    Parameters
    ----------
    item : Item
    tags : sequence of str (n,), optional
        UPOS tag of each of the item's tokens; what needs them is None where they are left out.
    lemma : str, optional
        The lemma of the target's head (see `Tokens.head`), by the pipeline.
    cut : Tokens, optional
        The item's tokens, where they are at hand.

    Returns
    -------
    dict
        ``target_pos``, ``target_class``, ``target_lemma``, ``in_context``, ``lemma_in_context``,
        ``n_mentions``, ``n_context_mentions``, ``mention_distance`` (tokens), ``mention_sentence``
        (sentences), ``same_root``, ``vocative``, ``direct_speech``, ``target_in_speech``, ``n_names``,
        ``n_context_sentences``, ``n_tokens``, and ``mentions``, ``speech`` and
        ``names`` (all proper nouns) as lists of character spans into ``item.text``. What is said about
        a target is None without one.

    Raises
    ------
    ValueError
        If there are more or fewer tags than tokens.

    Notes
    -----
    Neither the mentions nor the speech depend on the tags, nor on the case of the text.
    """
    cut = tokens(item) if cut is None else cut
    if tags is not None and len(tags) != len(cut.words):
        raise ValueError(f"there are {len(tags)} tags for {len(cut.words)} tokens")
    spoken = speech.speech_spans(cut.words)
    within = in_speech(cut, spoken)
    return {
        **_target(cut, tags, lemma, within),
        **_mentioned(cut),
        "direct_speech": bool(spoken),
        "target_in_speech": within is not None,
        "n_names": None if tags is None else n_names(cut.words, tags),
        "n_context_sentences": len(item.sentences) - 1,
        "n_tokens": len(cut.words),
        "speech": [(cut.spans[start][0], cut.spans[end - 1][1]) for start, end in spoken],
        "names": [span for span, tag in zip(cut.spans, tags or (), strict=False) if tag == "PROPN"],
    }


def _target(
    cut: Tokens, tags: Sequence[str] | None, lemma: str | None, within: Span | None
) -> dict[str, Any]:
    """Return what is said about the target itself."""
    if not cut.has_target:
        return dict.fromkeys(("target_pos", "target_class", "target_lemma", "same_root", "vocative"))
    pos = None if tags is None else tags[cut.head]
    word = cut.words[cut.head]
    return {
        "target_pos": pos,
        "target_class": None if pos is None else CLASS_OF_TAG.get(pos, "O"),
        "target_lemma": lemma,
        "same_root": any_same_root(word, cut.words),
        "vocative": None if tags is None else within is not None and vocative(cut, tags, within),
    }


def _mentioned(cut: Tokens) -> dict[str, Any]:
    """Return what is said about the mentions of the target."""
    if not cut.has_target:
        names = ("in_context", "lemma_in_context", "n_mentions", "n_context_mentions")
        return dict.fromkeys((*names, "mention_distance", "mention_sentence")) | {"mentions": []}
    places = mentions.mention_indices(cut)
    last = max((index for index in places if index < cut.target), default=None)
    return {
        "in_context": mentions.same_form(cut, places),
        "lemma_in_context": bool(places),
        "n_mentions": len(places),
        "n_context_mentions": sum(index < cut.sentences[-1] for index in places),
        "mention_distance": None if last is None else cut.target - last,
        "mention_sentence": None if last is None else mentions.sentence_of(cut, last),
        "mentions": [cut.spans[index] for index in places],
    }


def in_speech(cut: Tokens, spoken: Sequence[Span]) -> Span | None:
    """Return the range of quoted speech that the blank lies in, if any.

    A bare blank lies in it if it stands after its first token and before its last, or at its end
    where the text ends and no quote mark has closed it.
    """
    for start, end in spoken:
        if cut.has_target:
            inside = start <= cut.target < end
        else:
            inside = start < cut.target < end or (
                start < cut.target == end == len(cut.words) and cut.words[-1] not in _QUOTES
            )
        if inside:
            return start, end
    return None


def vocative(cut: Tokens, tags: Sequence[str], within: Span) -> bool:
    """Tell if the target addresses somebody: ``, John`` in quoted speech.

    Parameters
    ----------
    cut : Tokens
        Of an item with an answer.
    tags : sequence of str (n,)
        UPOS tags.
    within : (int, int)
        Tokens of the speech that the target lies in.

    Returns
    -------
    bool
        Whether the target is a name, or a term of address (*sir*, *mother*, *boys*), that a comma,
        an opening quote mark or an interjection sets off on its left, words such as *my dear* and
        the rest of the name between, and punctuation or the end of the text on its right. Names in
        a list, and those that explain who somebody is (``my brother , John``), are left out where
        the tokens before the comma show it.
    """
    low = [fold_case(word) for word in cut.words[within[0] : within[1]]]
    first = last = cut.head - within[0]
    kinds = tags[within[0] : within[1]]
    if kinds[first] != "PROPN" and (low[first] not in _ADDRESSES or kinds[first] in {"VERB", "AUX"}):
        return False
    while last + 1 < len(low) and kinds[last + 1] == "PROPN":
        last += 1
    while first and (kinds[first - 1] == "PROPN" or low[first - 1] in _LEADING):
        first -= 1
    if first and low[first - 1] == "you":  # you fool
        first -= 1
    if last + 1 < len(low) and low[last + 1] not in _FOLLOWING:
        return False
    if not first:
        return False
    before = low[first - 1]
    if before == ",":
        return not _listed(low, kinds, first - 1, last + 1)
    return before in _INTERJECTIONS or before in _QUOTES


def _listed(low: Sequence[str], kinds: Sequence[str], comma: int, after: int) -> bool:
    """Tell if a comma stands in a list of names, or before a name that explains a noun."""
    if not comma:
        return False
    if low[after : after + 2] in ([",", "and"], [",", "or"]):
        return True
    if kinds[comma - 1] == "PROPN":
        return comma > 1 and low[comma - 2] not in _QUOTES
    return (
        kinds[comma - 1] == "NOUN"
        and comma > 1
        and low[comma - 2] in _OWNERS
        and low[comma - 1] in _ADDRESSES
    )


def n_names(words: Sequence[str], tags: Sequence[str]) -> int:
    """Count the distinct names of a passage.

    Parameters
    ----------
    words, tags : sequence of str (n,)
        Tokens and their UPOS tags.

    Returns
    -------
    int
        Tokens tagged PROPN in a row are one name; two that share a word (its plural and possessive
        included, titles such as *Mr.* apart) are one: John Smith, John, Mr. Smith, the Smiths.
    """
    groups: list[set[str]] = []
    run: list[str] = []
    for word, tag in zip((*words, ""), (*tags, ""), strict=True):
        if tag == "PROPN" and any(map(str.isalnum, word)):
            run.append(word)
        elif run:
            _join(groups, run)
            run = []
    return len(groups)


def _join(groups: list[set[str]], run: list[str]) -> None:
    """Add a name to the groups of words that belong to one name each."""
    proper = [word for word in run if fold_case(word) not in _TITLES] or run
    keys = {lemma for word in proper for kind, lemma in default().readings(word) if kind in {"N", "O"}}
    for group in [group for group in groups if group & keys]:
        keys |= group
        groups.remove(group)
    groups.append(keys)
