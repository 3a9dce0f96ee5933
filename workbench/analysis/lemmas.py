"""Lemmas and roots of English words.

A lemma is looked up in a table (irregular forms, and what was learnt from treebanks and novels) or else
made by rules that detach an ending, as WordNet's Morphy does (Fellbaum 1998, chapter 1).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from workbench.storage.errors import reading
from workbench.storage.files import read_json
from workbench.storage.paths import resource

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
"""Lists of words that the analysis knows beside the table of lemmas."""

KINDS = {
    "N": ("NOUN", "N"), "P": ("PROPN", "N"), "V": ("VERB", "V"), "U": ("AUX", "V"), "A": ("ADJ", "A"),
    "R": ("ADV", "R"), "p": ("PRON", "O"), "d": ("DET", "O"), "t": ("PART", "O"), "o": ("X", "O"),
}  # fmt: skip
"""Letters of the parts of speech in the table: the UPOS tag, and the class of a `Reading`."""

_APOSTROPHES = str.maketrans("’ʼ`", "'''")  # noqa: RUF001 - typographic apostrophes are meant
POSSESSIVE = re.compile(r"(?<=\w)'s?$")
"""Possessive ending of a form with plain apostrophes."""

_AMBIGUOUS = frozenset({"'s", "'d", "'"})  # is, has, us, would, had, or the possessive
_OPEN = frozenset("NPVAR")
_VOWELS = "aeiouy"
_PREFIXES = ("counter", "under", "over", "fore", "mis", "out", "pre", "re", "un", "up")
_SINGULAR_IN_MEN = frozenset({"abdomen", "acumen", "regimen", "specimen"})
_PEOPLES = re.compile(r"i(?:an|st)s$")  # names that have a singular: Egyptians, Methodists
_PLURALS = (("men", "man"), ("wives", "wife"), ("children", "child"), ("teeth", "tooth"))  # ends of words
_LEAST_NAME = 3  # letters that are left of a name when its plural ending is taken off


class Reading(NamedTuple):
    """One way to read a form: its part of speech, and the lemma with it, in lower case."""

    word_class: str  # N (nouns and names), V, A, R, or O (all that does not inflect, and pronouns)
    lemma: str


class Lemmas:
    """A lemmatiser, made of the parts of a table file.

    These are the lemma by UPOS tag of a lower-cased form where the rules would fail (`exceptions`), and of a
    form with capitals whose lemma has capitals (`cased`: ``New``, ADJ); all lemmas of `irregular` forms by
    tag; verbs without a regular past form (`strong`: ``seed`` is not a form of ``see``); letters of the parts
    of speech of frequent forms (`classes`, see `KINDS`); and words that are their own lemma (`attested`:
    ``verbs``, and ``others``).
    """

    def __init__(
        self,
        exceptions: Mapping[str, Mapping[str, str]],
        cased: Mapping[str, Mapping[str, str]],
        irregular: Mapping[str, Mapping[str, list[str]]],
        *,
        strong: frozenset[str] = frozenset(),
        classes: Mapping[str, str] | None = None,
        attested: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._exceptions, self._cased, self._irregular = exceptions, cased, irregular
        self._strong = frozenset(strong)
        self._classes = dict(classes or {})
        self.verbs = frozenset((attested or {}).get("verbs", ()))
        """Attested words that can be verbs."""
        self.words = self.verbs.union((attested or {}).get("others", ()))
        """All attested words that are their own lemma."""
        self.readings = lru_cache(maxsize=1 << 16)(self._readings)
        """`readings(form)`: the frozenset of all `Reading` of a form, without regard to case."""

    @classmethod
    def read(cls, path: Path | str) -> Lemmas:
        """Read a table file, as ``tools/tagger/lemma_tables.py`` writes it."""
        description = "this table of lemmas"
        with reading(path, description, hint="take the file of this version, which `make tagger` makes"):
            table = read_json(path, description)
            return cls(
                table["exceptions"],
                table["cased"],
                table["irregular"],
                strong=frozenset(table["strong"]),
                classes={form: classes for classes, forms in table["kinds"].items() for form in forms},
                attested=table["attested"],
            )

    def lemma(self, form: str, pos: str) -> str:
        """Return the lemma of a token with a UPOS tag by the conventions of Universal Dependencies.

        It is in lower case, but for names, the pronoun I, and words that the treebanks write with capitals;
        what is known only in lower case stays in it.
        """
        low = fold_case(form)
        lemma = self._cased.get(pos, {}).get(form) or self._exceptions.get(pos, {}).get(low)
        if lemma or pos == "PROPN":
            return lemma or (form[:-1] if _PEOPLES.search(low) else form)
        if several := self._irregular.get("VERB" if pos == "AUX" else pos, {}).get(low):
            return several[0]
        if pos == "NOUN":
            return self._noun(low)
        if pos in {"VERB", "AUX"}:
            return self._verb(low)
        return low.replace(",", "") if pos == "NUM" and low[:1].isdigit() else low

    def knows(self, form: str) -> bool:
        """Return whether a form is an attested word or a frequent form."""
        low = fold_case(form)
        return low in self.words or low in self._classes

    def is_ordinary(self, form: str) -> bool:
        """Return whether a form is attested as a word other than a name."""
        low = fold_case(form)
        classes = self._classes.get(low)
        return low in self.words if classes is None else not set("Po").issuperset(classes)

    def _readings(self, form: str) -> frozenset[Reading]:
        """Return all readings of a form; a possessive, a final period and the case make no difference.

        A frequent form is read only as the parts of speech that it has in the treebanks: ``evening`` is no
        form of *even*, nor ``his`` of *hi*. A rare one may be any that inflects, and the plural of a name.
        """
        low = _stripped(fold_case(form))
        if low in _AMBIGUOUS or not any(map(str.isalpha, low)):
            return frozenset({Reading("O", low)})
        classes = self._classes.get(low, "NVAR")
        result = {Reading(KINDS[k][1], self.lemma(low, KINDS[k][0]).lower()) for k in classes}
        if low.endswith("s") and not {"N", "V"}.isdisjoint(classes):  # dreams: a frequent noun, a rare verb
            if (noun := self._noun(low)) in self.words and "N" in self._classes.get(noun, "N"):
                result.add(Reading("N", noun))
            if (verb := self._verb(low)) in self.verbs:
                result.add(Reading("V", verb))
        for pos, word_class in (("VERB", "V"), ("NOUN", "N"), ("ADJ", "A"), ("ADV", "R")):
            result.update(Reading(word_class, lemma) for lemma in self._irregular.get(pos, {}).get(low, ()))
        if not _OPEN.isdisjoint(classes):
            result.update(Reading(letter, low) for letter in "NVAR")  # an ending can come to any open word
        if low not in self._classes:
            result.update(Reading("N", name) for name in self._names(low))
        return frozenset(result)

    def _noun(self, low: str) -> str:
        for ending, singular in _PLURALS:
            if low.endswith(ending) and len(low) > len(ending) + 1 and low not in _SINGULAR_IN_MEN:
                return low.removesuffix(ending) + singular
        return _singular(low)

    def _verb(self, low: str) -> str:
        irregular = self._irregular.get("VERB", {})
        for prefix in _PREFIXES:
            rest = low.removeprefix(prefix)
            if len(prefix) + len(rest) == len(low) and len(rest) >= _LEAST_NAME and rest in irregular:
                return prefix + irregular[rest][0]
        if low.endswith("ied"):
            return low[:-3] + ("y" if len(low) > len("died") else "ie")
        for ending in ("ing", "ed", "eth"):
            stem = low.removesuffix(ending)
            if stem != low and len(stem) > 1 and any(letter in _VOWELS for letter in stem):
                base = _base(stem)
                return low if ending == "ed" and (stem[-1] == "e" or base in self._strong) else base
        return _singular(low)

    def _names(self, low: str) -> set[str]:
        """Return the names that a form may be the plural of: the Wynns, the Joneses."""
        if not low.endswith("s") or low.endswith("ss") or len(low) <= _LEAST_NAME:
            return set()
        return {low[:-1], low[:-2]} if re.search(r"(?:[sxz]|[cs]h)es$", low) else {low[:-1]}


def fold_case(form: str) -> str:
    """Return a form as the table has it: in lower case, with plain apostrophes."""
    return form.lower().translate(_APOSTROPHES)


@cache
def default() -> Lemmas:
    """Return the lemmatiser of the pipeline ``en_narrative``; it is read once."""
    return Lemmas.read(resource("en_narrative", "lemmatizer", "lemmas.json"))


def _stripped(low: str) -> str:
    """Remove endings that do not change the word: a possessive, a period; ``goin'`` is *going*."""
    if low.endswith("in'") and len(low) > len("ain'"):
        return f"{low[:-1]}g"
    if low in _AMBIGUOUS:
        return low
    low = POSSESSIVE.sub("", low)
    # an abbreviation, or a period that the tokenizer left with a name
    return low[:-1] if low[:-1].isalpha() and low[-1] == "." and len(low) > _LEAST_NAME else low


def _singular(low: str) -> str:
    """Remove the ``s`` of a plural, or of the third person."""
    if not low.endswith("s") or low.endswith(("ss", "us", "is", "'s")) or len(low) <= len("as"):
        return low
    if low.endswith("ies"):
        return low[:-3] + ("y" if len(low) > len("pies") else "ie")
    return low[:-2] if re.search(r"(?:ss|zz|x|[cs]h|[^aeiou]o)es$", low) else low[:-1]


# What is left of a verb without -ed or -ing and lacks an e.
_LACKS_E = re.compile(
    r"""(?: [cvu](?<!ou) | (?<!s)s | [iy]z | [rdl]g | [aeiou]g | [^aeiourlw]l | (?<![aeo])at
        | (?:(?<![ao])i | (?<![oa])u | (?<![eo])a | (?<!o)o)d | (?<!o)ut | (?<!o)ot | (?<![ao])in
        | (?<!a)i[rm] | (?<![oa])ur | u[mn] | (?<![eo])[ao]r | (?<![aeo])[aeio]k
        | ^[^aeiou]*[aeiouy][^aeiouywx] )$""",
    re.VERBOSE,
)
_DOUBLED = re.compile(r"(?P<twice>[bdgkmnprtv])(?P=twice)$")


def _base(stem: str) -> str:
    """Restore a verb from its stem without -ed or -ing."""
    if _DOUBLED.search(stem):
        return stem[:-1]
    return f"{stem}e" if _LACKS_E.search(stem) else stem


_FAMILIES: str = WORDS["lemmas"]["families"]
_UNRELATED = frozenset(WORDS["lemmas"]["unrelated"].split())
_ENDINGS: str = WORDS["lemmas"]["endings"]


class _Rule(NamedTuple):
    ending: str
    instead: tuple[str, ...]
    least: int
    verb: bool


def _rule(text: str) -> _Rule:
    ending, instead, least, *verb = text.split()
    return _Rule(ending, tuple(tail.strip("-") for tail in instead.split(",")), int(least), bool(verb))


_RULES = tuple(map(_rule, _ENDINGS.split(";")))
_ROOT_PREFIXES = (("un", 4), ("dis", 4), ("mis", 5), ("non", 4), ("im", 6), ("in", 6), ("il", 5), ("ir", 6))
_STEPS = 3
_SURE = len("creation")
_FAMILY = {word: family[0] for row in _FAMILIES.split(";") if (family := row.split()) for word in family}
_DOUBLED_STEM = re.compile(r"([bdgklmnprt])\1$")


def any_same_root(word: str, others: Iterable[str]) -> bool:
    """Return whether any of the tokens shares a root with a word, regardless of case.

    Words of one root are ``die``, ``dead`` and ``death``, but not ``corn`` and ``corner``, nor the forms of
    one word (``dog``, ``dogs``), which are mentions of each other. Derivational endings and prefixes are
    removed as long as the remainder is an attested word (the affix-stripping of Porter 1980 with the check of
    Krovetz 1993, section 5); irregular families, and words that only look derived, are listed.
    """
    wanted, readings = word_roots(word), default().readings
    return bool(wanted) and any(
        not wanted.isdisjoint(word_roots(other)) and readings(word).isdisjoint(readings(other))
        for other in others
    )


@lru_cache(maxsize=1 << 16)
def word_roots(word: str) -> frozenset[str]:
    """Return a word's lemmas and the attested words that they are derived from."""
    readings = default().readings(word)
    words = {lemma for word_class, lemma in readings if word_class != "O" and len(lemma) > len("at")}
    new = words
    for _ in range(_STEPS):
        new = {base for derived in new for base in _bases(derived)} - words
        words = words | new
    return frozenset(_FAMILY.get(base, base) for base in words)


def _bases(word: str) -> set[str]:
    """Return the attested words that a word can be derived from in one step."""
    if word in _UNRELATED:
        return set()
    lexicon = default()
    bases = set()
    for ending, instead, least, verb in _RULES:
        if word.endswith(ending):
            stem = word[: len(word) - len(ending)]
            options = {stem + tail for tail in instead}
            if _DOUBLED_STEM.search(stem) and ending[0] in "aeiouy":
                options.add(stem[:-1])
            attested = lexicon.verbs if verb else lexicon.words
            bases |= {base for base in options if len(base) >= least and base in attested}
    if word.endswith("ation") and len(word) > _SURE:
        bases.add(f"{word[:-3]}e")  # dehydrate, be it attested or not
    for prefix, least in _ROOT_PREFIXES:
        base = word.removeprefix(prefix)
        if base != word and len(base) >= least and base in lexicon.words:
            bases.add(base)
    return bases
