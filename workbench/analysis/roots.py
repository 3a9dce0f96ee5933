"""Words of one root: ``die``, ``dead``, ``death`` and ``deadly`` are, ``corn`` and ``corner`` are not.

Derivational endings and a few prefixes are taken off as long as what is left is an attested
word; two words are related if they come to a common one. This is the affix-stripping of stemmers
(Porter 1980) with the check against a lexicon that Krovetz (1993, section 5) adds to it. Families
that no rule joins, and words that only look derived, are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from workbench.analysis.lemmas import default

_FAMILIES = """
    able ability disable disability enable unable; advise advice adviser; angry anger angrily; asleep sleep;
    awake wake; beauty beautiful beautify; believe belief disbelief unbelievable; bleed blood;
    breathe breath breathless; broad breadth broaden; bury burial; busy busily; choose choice;
    clothe cloth clothing clothes; conceive conception concept; deceive deceit deception deceptive;
    deep depth deepen; describe description; destroy destruction destructive destroyer;
    die dead death deadly deathly deaden; dine dinner diner; divide division; enter entrance entry;
    explain explanation; explode explosion explosive; expose exposure; fail failure; famous fame; far afar;
    feed food; fly flight; fool foolish folly; full fill fulfil; gift give; glory glorious;
    gold golden gild; grass grassy; grieve grief grievous; grow growth; hate hatred; heal health healthy;
    hero heroic heroine heroism; high height heighten; hot heat; horror horrible horrify horrific horrid;
    humble humility; hungry hunger hungrily; invade invasion; just justice injustice;
    know knowledge knowledgeable unknown; laugh laughter; live life alive lively;
    long length lengthen lengthy; lose loss; maintain maintenance; marry marriage marital; mercy merciful;
    move motion movement; noise noisy; obey obedient obedience disobey; perceive perception;
    persuade persuasion; please pleasure pleasant; poor poverty; pride proud proudly;
    produce product production; prove proof; receive reception receipt; relieve relief;
    remember remembrance; rob robber robbery; see sight; sell sale; serve service servant; sing song singer;
    sit seat; solve solution; speak speech; steal stealth stealthy; strike stroke;
    strong strength strengthen; succeed success successful; suspect suspicion suspicious;
    terror terrible terrify terrific; thief theft thieve; think thought thoughtful;
    true truth truly truthful untrue; try trial; unite unity union; vary various variety; warm warmth;
    weigh weight; wide width widen; wise wisdom; worth worthy; young youth youthful; abuse abusive;
    brother brotherhood brethren; decide decision decisive; evil evilly; magic magician magical;
    music musician musical; murder murderer; science scientist scientific; space spacious; star starry;
    winter wintry; fire fiery; child childhood childish; danger dangerous endanger;
    courage courageous encourage discourage; lone lonely loneliness; half halve; safe safety save; use user;
    own owner ownership; act actor actress action active activity; run runner; win winner; swim swimmer;
    sin sinner; dig digger; cut cutter; hit hitter; fun funny; mud muddy; buy buyer; art artist artistic;
    ice icy; ease easy easily uneasy; oil oily; age aged; beg beggar; lie liar; sun sunny; fog foggy;
    visit visitor
"""

_UNRELATED = frozenset(
    """
    agony animal apply archive backer battery belly brandy bully business butter career charter chatter
    cherry chicken classy comment commission commodity compassion confess counter country county crazy
    curator curious daisy dental dentist department disappoint discount discover discuss disease disguise
    disgust dispatch display disposition distant distract early ebony every factory fairy flattery flower
    forgive former forty gallery gingerly gorgeous grateful gravity handsome hardly hardy harness hearth
    heavy holy hospitality immediate imply increase investment irony lately listen liver livery mansion
    marshal massage material matter mental meter mischief misery mostly multiply number organize pacific
    party pastor pasty penny petition platter policy pollen portal portion poster primary probable professor
    proper question ration ready rectory reply reputation restive rover seldom serious several shortly
    shower silly spanish special spiral station steady story stringent study success supply surgery tactic
    tender tradition treaty trillion universal university unless vacation version vicious whisky witness
    """.split()  # noqa: SIM905
)

# Ending, what may stand in its place (- for nothing), least length of the base, if the base must be a verb.
_ENDINGS = """
    ily y 4; ically ic,ical 5; ly -,le 3; lly l,ll 4; iness y 3; ness - 3; ment -,e 4 verb; iful y 4;
    ful - 3; iless y 4; less - 3; ier y 4 verb; er -,e 4 verb; or - 4 verb; or e 5 verb; ication y 4 verb;
    ation -,e,ate 4 verb; ition -,e 5 verb; ion -,e 5; ption be,ve 6 verb; sion d,de,t 5 verb;
    ssion t 5 verb; ance - 4 verb; ance e 5 verb; ance ant 6; ence -,e 5 verb; ence ent 6; ency ent 5;
    ancy ant 5; ant -,e 5 verb; ent -,e 6 verb; bility ble 5; ity - 4; ity e,ous 5; ial y,- 5; al - 4;
    al e 5; ical ic,y 5; ic - 4; ic y,e 5; ious y,e 4; ous - 4; ous e,y 5; y - 4; y e 5; ist -,e,y 4;
    ism -,e,y 4; ish - 4; ish e 5; ise -,y 5; ize -,y 5; en - 4; ship - 4; hood - 3; dom -,e 4;
    able -,e 4 verb; iable y 4 verb; ible -,e 5 verb; ive -,e 4 verb; ative -,e,ate 5 verb; ery -,e,er 4;
    ry - 5; ess -,er,or 5; age -,e 5 verb; iage y 5 verb; ure -,e 5 verb; some - 4; like - 4; th - 4 verb;
    ward - 4; wards - 4
"""


class _Rule(NamedTuple):
    ending: str
    instead: tuple[str, ...]
    least: int
    verb: bool


def _rule(text: str) -> _Rule:
    ending, instead, least, *verb = text.split()
    return _Rule(ending, tuple(tail.strip("-") for tail in instead.split(",")), int(least), bool(verb))


_RULES = tuple(map(_rule, _ENDINGS.split(";")))
_PREFIXES = (("un", 4), ("dis", 4), ("mis", 5), ("non", 4), ("im", 6), ("in", 6), ("il", 5), ("ir", 6))
_STEPS = 3
_SURE = len("creation")
_FAMILY = {word: family[0] for row in _FAMILIES.split(";") if (family := row.split()) for word in family}
_DOUBLED = re.compile(r"([bdgklmnprt])\1$")


def same_root(word: str, other: str) -> bool:
    """Tell if two words are of one root but no forms of one word.

    Parameters
    ----------
    word, other : str
        Tokens, in any case.

    Returns
    -------
    bool
        Symmetric. False for the forms of one word (``dog``, ``dogs``), which are mentions of
        each other, and for tokens without letters.
    """
    return any_same_root(word, (other,))


def any_same_root(word: str, others: Iterable[str]) -> bool:
    """Tell if any of several tokens is of one root with a word; see :func:`same_root`."""
    wanted, readings = roots(word), default().readings
    return bool(wanted) and any(
        not wanted.isdisjoint(roots(other)) and readings(word).isdisjoint(readings(other)) for other in others
    )


@lru_cache(maxsize=1 << 16)
def roots(word: str) -> frozenset[str]:
    """Return a word's lemmas and the attested words that they are derived from."""
    readings = default().readings(word)
    found = {lemma for kind, lemma in readings if kind != "O" and len(lemma) > len("at")}
    new = found
    for _ in range(_STEPS):
        new = {base for one in new for base in _bases(one)} - found
        found = found | new
    return frozenset(_FAMILY.get(one, one) for one in found)


def _bases(word: str) -> set[str]:
    """Return the attested words that a word can be derived from in one step."""
    if word in _UNRELATED:
        return set()
    lexicon = default()
    found = set()
    for ending, instead, least, verb in _RULES:
        if word.endswith(ending):
            stem = word[: len(word) - len(ending)]
            options = {stem + tail for tail in instead}
            if _DOUBLED.search(stem) and ending[0] in "aeiouy":
                options.add(stem[:-1])
            attested = lexicon.verbs if verb else lexicon.words
            found |= {base for base in options if len(base) >= least and base in attested}
    if word.endswith("ation") and len(word) > _SURE:
        found.add(f"{word[:-3]}e")  # dehydrate, be it attested or not
    for prefix, least in _PREFIXES:
        base = word.removeprefix(prefix)
        if base != word and len(base) >= least and base in lexicon.words:
            found.add(base)
    return found
