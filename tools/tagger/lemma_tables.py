"""Make the table of the lemmatiser: what the rules of ``workbench.analysis.lemmas`` do not know.

It is learnt from the treebanks that may be trained on (EWT train, and the GUM genres whose
licence allows it), from a list of irregular forms (``irregular.txt``), and from the words of
novels in the public domain: ``shoes`` is of *shoe* because *shoe* is a word and *sho* is none.
The same data give the same file, byte for byte.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path

import novels
import pyarrow as pa
import treebanks
from pyarrow import compute

from workbench.analysis.lemmas import KINDS, Lemmas, fold_case
from workbench.storage.errors import DataError
from workbench.storage.files import atomic_path
from workbench.storage.paths import resource

TARGET = resource("en_narrative", "lemmatizer", "lemmas.json")

Words = Counter[str]
Gold = Counter[tuple[str, str, str]]
Table = dict[str, dict[str, str]]

_WORD = re.compile(r"(?<![\w'’-])[a-z]+(?![\w-])")  # noqa: RUF001 - a typographic apostrophe is meant
_NO_DIGIT = re.compile(r"[^0-9]")
_VOWELS = "aeiou"
_AT_ONCE = 64  # texts whose tokens are in memory
_RARE = 3  # a form that the novels have less often may be a misprint
_PLURAL = re.compile(r"[^su]s$")
_SHORT = 3  # letters; the inflected verbs that have fewer are irregular
_COMMON = 20  # from here on a word of the novels may be the base of another
_FREQUENT = 5  # from here on the treebanks tell all parts of speech of a form
_SHARE = 0.03  # of a form's occurrences; a part of speech below that is an error of annotation
_CLOSED = "o"  # the letter of what does not inflect


def main() -> None:
    """Learn the table from the data at hand, write it, and say how well it does."""
    gold = Counter(
        chain.from_iterable(
            zip(s.words, s.upos, s.lemmas, strict=True)
            for name in treebanks.TRAINING
            for s in treebanks.sentences(treebanks.find(name))
        )
    )
    texts = (book.text for book in novels.untested())
    irregular = (Path(__file__).parent / "irregular.txt").read_text(encoding="utf-8")
    write(TARGET, learn(gold, vocabulary(texts), irregular))
    lemmatiser = Lemmas.read(TARGET)
    for name in ("ewt-dev", "gum-dev"):
        shares = [accuracy(lemmatiser, treebanks.find(name), lower=lower) for lower in (False, True)]
        print(f"{name}: lemma accuracy {shares[0]:.2%}, lower-cased {shares[1]:.2%}")


def vocabulary(texts: Iterable[str]) -> Words:
    """Count the words of texts that are written in lower case."""
    counts: Words = Counter()
    left, counted = iter(texts), []
    while several := list(islice(left, _AT_ONCE)):
        tokens = compute.list_flatten(compute.ascii_split_whitespace(pa.array(several, pa.string())))
        counted.append(pa.Table.from_struct_array(tokens.value_counts()))
    if counted:
        tokens = pa.concat_tables(counted).group_by("values").aggregate([("counts", "sum")])
        pairs = zip(tokens["values"].to_pylist(), tokens["counts_sum"].to_pylist(), strict=True)
        for token, count in pairs:  # no word goes over white space
            is_word = token.isascii() and token.isalpha() and token.islower()
            for word in (token,) if is_word else _WORD.findall(token):
                counts[word] += count
    return counts


def learn(gold: Gold, words: Words, irregular: str) -> dict[str, object]:
    """Return the table.

    Parameters
    ----------
    gold : counter of (form, UPOS, lemma)
        Of the treebanks.
    words : counter of str
        Lower-case words of running text.
    irregular : str
        Lines ``POS lemma form form ...``, as in ``irregular.txt``.

    Returns
    -------
    dict
        What :meth:`workbench.analysis.lemmas.Lemmas.read` reads, in order.
    """
    forms, strong = _irregular(irregular)
    table: Table = defaultdict(dict)
    lemmatiser = Lemmas(table, {}, forms, strong=strong)
    for pos, form, lemma in _from_words(words, strong, gold):
        if form not in forms.get(pos, ()) and lemmatiser.lemma(form, pos) != lemma:
            table[pos][form] = lemma
    plausible = _without_slips(gold, words, lemmatiser)
    _from_gold(plausible, table, lemmatiser, forms)
    cased: Table = defaultdict(dict)
    exact = Lemmas(table, cased, forms, strong=strong)
    for (form, pos), lemma in sorted(_usual(((w, p), lm, n) for (w, p, lm), n in plausible.items()).items()):
        if form != form.lower() and lemma != exact.lemma(form, pos):
            cased[pos][form] = lemma
    return {
        "format": 1,
        "exceptions": _ordered(table),
        "cased": _ordered(cased),
        "irregular": {pos: dict(sorted(entries.items())) for pos, entries in sorted(forms.items())},
        "strong": sorted(strong),
        "kinds": _kinds(gold),
        "attested": _attested(plausible, words, lemmatiser, strong),
    }


def write(path: Path, table: Mapping[str, object]) -> None:
    """Write a table, compact and whole."""
    with atomic_path(path) as temporary:
        temporary.write_text(
            json.dumps(table, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8"
        )


def accuracy(lemmatiser: Lemmas, path: Path, *, lower: bool = False) -> float:
    """Return the share of words with the right lemma, given the right tag.

    Parameters
    ----------
    lemmatiser : Lemmas
    path : path
        A treebank in CoNLL-U.
    lower : bool, default False
        Whether the words are lower-cased first; the lemmas are then compared without their case.
    """
    right = total = 0
    for sentence in treebanks.sentences(path):
        for word, pos, gold in zip(sentence.words, sentence.upos, sentence.lemmas, strict=True):
            total += 1
            if lower:
                right += lemmatiser.lemma(word.lower(), pos).lower() == gold.lower()
            else:
                right += lemmatiser.lemma(word, pos) == gold
    return right / total


def inflect(verb: str) -> dict[str, set[str]]:
    """Return the regular forms of a verb by their ending; two spellings where both are in use."""
    if verb.endswith("ie"):
        return {"ing": {f"{verb[:-2]}ying"}, "ed": {f"{verb}d"}, "s": {f"{verb}s"}}
    third = {_plural(verb)}
    if verb.endswith("e"):
        ing = f"{verb}ing" if verb.endswith(("ee", "oe", "ye")) else f"{verb[:-1]}ing"
        return {"ing": {ing}, "ed": {f"{verb}d"}, "s": third}
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return {"ing": {f"{verb}ing"}, "ed": {f"{verb[:-1]}ied"}, "s": third}
    single = re.search(r"(?:^|[^aeiou]|qu)[aeiouy][^aeiouwxy]$", verb)
    short = len(re.findall("[aeiouy]+", verb.replace("qu", "q"))) == 1
    stems = {verb[:-1] + verb[-1] * 2} if single and short else {verb}
    if single and not short:
        stems.add(verb + verb[-1])
    return {"ing": {f"{s}ing" for s in stems}, "ed": {f"{s}ed" for s in stems}, "s": third}


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in _VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"


def _from_words(words: Words, strong: frozenset[str], gold: Gold) -> Iterator[tuple[str, str, str]]:
    """Yield part of speech, form and lemma of what the words of the novels are forms of."""
    gold_of: dict[str, Words] = defaultdict(Counter)
    for (_, pos, lemma), count in gold.items():
        gold_of[pos][lemma.lower()] += count
    bases: dict[tuple[str, str], set[str]] = defaultdict(set)
    for word, count in words.items():
        if count < _RARE or len(word) < _SHORT or (_PLURAL.search(word) and words[word[:-1]] > count):
            continue  # a misprint, or a plural
        verb = _verbal(
            word, words, past=word not in strong, surely=gold_of["VERB"][word] > 0 or word in strong
        )
        for form in verb:
            bases["VERB", form].add(word)
        for form in {_plural(word), f"{word}es"} if word.endswith("o") else {_plural(word)}:
            if words[form] >= _RARE and count >= _SHARE * words[form]:
                bases["NOUN", form].add(word)
        n_modifier = gold_of["ADJ"][word] + gold_of["ADV"][word]
        if n_modifier > gold_of["VERB"][word] or (not gold_of["VERB"][word] and _adjectival(word, words)):
            for form in _compared(word, words):
                bases["ADJ", form].add(word)
                bases["ADV", form].add(word)
    for (pos, form), several in sorted(bases.items()):
        most = max(words[word] for word in several)
        yield (
            pos,
            form,
            max(several, key=lambda w: (gold_of[pos][w] > 1, _preferred(w, words, most), words[w], w)),
        )


def _preferred(word: str, words: Words, most: int) -> int:
    """Rank a base by its other forms: *breathe* before *breath*, but *sever* before *severe*."""
    used = words[_plural(word)] >= _RARE and words[word] >= _SHARE * most
    return used + (used and word.endswith("e"))


def _verbal(word: str, words: Words, *, past: bool, surely: bool) -> set[str]:
    """Return the regular forms of a verb that are words; none if there are too few."""
    seen = {end: {form for form in forms if words[form] >= _RARE} for end, forms in inflect(word).items()}
    if not past:
        del seen["ed"]
    enough = bool(seen["ing"]) and (surely or bool(seen.get("ed")))
    return set().union(*seen.values()) if enough else set()


def _adjectival(word: str, words: Words) -> bool:
    """Tell by adverb and noun if a word is an adjective: "thou knowest, a knower" make none of a verb."""
    stem = f"{word[:-1]}i" if word.endswith("y") else word
    adverb = f"{word[:-1]}y" if word.endswith("le") else f"{stem}ly"
    return words[adverb] >= _RARE or words[f"{stem}ness"] >= _RARE


def _compared(word: str, words: Words) -> set[str]:
    """Return comparative and superlative, if both are words."""
    stems = {form.removesuffix("ed") for form in inflect(word)["ed"]}
    forms = [{stem + ending for stem in stems} for ending in ("er", "est")]
    both = all(any(words[form] >= _RARE for form in several) for several in forms)
    return set().union(*forms) if both else set()


def _without_slips(gold: Gold, words: Words, lemmatiser: Lemmas) -> Gold:
    """Leave out what the treebanks say by mistake: ``60th`` of *100th*, ``dishonest`` of *dishon*.

    A lemma with other digits than its form is one; so is a lemma that differs from the form and from what the
    rules make of it, if it occurs once and is no word of the treebanks or the novels. Of a regular verb the
    rules may miss an ``e`` (*rename*): the longer one stays, if that of the rules
    is no word.
    """
    lemmas: Words = Counter()
    for (_, _, lemma), count in gold.items():
        lemmas[lemma.lower()] += count
    forms = {fold_case(form) for form, _, _ in gold}

    def is_slip(form: str, pos: str, lemma: str) -> bool:
        if _NO_DIGIT.sub("", form) != _NO_DIGIT.sub("", lemma):
            return lemma != "_"
        low, folded = lemma.lower(), fold_case(form)
        if lemmas[low] > 1 or low in forms or words[low] >= _RARE:
            return False
        by_rule = lemmatiser.lemma(folded, pos).lower()
        is_verb = pos == "VERB" and any(folded in several for several in inflect(low).values())
        is_longer = is_verb and len(low) > len(by_rule) and words[by_rule] < _RARE
        return low not in {folded, by_rule} and not is_longer

    return Counter({key: count for key, count in gold.items() if not is_slip(*key)})


def _from_gold(gold: Gold, table: Table, lemmatiser: Lemmas, irregular: Mapping[str, Container[str]]) -> None:
    """Add to the table what the treebanks say otherwise, by words in lower case where there are any."""
    counts: Counter[tuple[str, str]] = Counter()
    lowered: list[tuple[tuple[str, str], str, int]] = []
    cased: list[tuple[tuple[str, str], str, int]] = []
    for (word, pos, lemma), count in gold.items():
        key = (fold_case(word), pos)
        counts[key] += count
        (lowered if word == word.lower() else cased).append((key, lemma, count))
    for (form, pos), lemma in sorted((_usual(cased) | _usual(lowered)).items()):
        if pos == "PROPN" and lemma.lower() == form:
            continue  # a name keeps its case
        if counts[form, pos] < _RARE and (form in irregular.get(pos, ()) or form in table[pos]):
            continue  # rather a slip of the treebank than of the list or the novels
        if lemmatiser.lemma(form, pos) != lemma:
            table[pos][form] = lemma


def _attested(gold: Gold, words: Words, lemmatiser: Lemmas, strong: frozenset[str]) -> dict[str, list[str]]:
    """Return words that are their own lemma, the verbs among them apart."""
    seen = {lemma for (_, pos, lemma) in gold if pos in {"NOUN", "VERB", "ADJ"} and lemma.isalpha()}
    seen |= {word for word, count in words.items() if count >= _COMMON}
    verbs = {lemma.lower() for (_, pos, lemma) in gold if pos == "VERB"} | strong
    attested: dict[str, list[str]] = {"verbs": [], "others": []}
    for word in sorted(map(str.lower, seen)):
        if len(word) <= len("at") or any(word != lemmatiser.lemma(word, p) for p in ("NOUN", "VERB")):
            continue
        forms = inflect(word)
        pairs = [any(words[form] >= _RARE for form in forms[end]) for end in ("ing", "ed")]
        attested["verbs" if word in verbs or all(pairs) else "others"].append(word)
    return {kind: list(dict.fromkeys(several)) for kind, several in attested.items()}


def _usual(rows: Iterable[tuple[tuple[str, str], str, int]]) -> dict[tuple[str, str], str]:
    """Return the most frequent lemma of each key; ``_`` marks parts of words that are none."""
    counts: dict[tuple[str, str], Words] = defaultdict(Counter)
    for key, lemma, count in rows:
        if lemma != "_":
            counts[key][lemma] += count
    return {key: min(c.items(), key=lambda pair: (-pair[1], pair[0]))[0] for key, c in counts.items()}


def _irregular(text: str) -> tuple[dict[str, dict[str, list[str]]], frozenset[str]]:
    """Read the list of irregular forms: for each part of speech form to lemmas; strong verbs."""
    forms: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    strong = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        pos, lemma, *several = line.split()
        if not several:
            raise DataError("a line needs a part of speech, a lemma and its forms", line=number)
        if pos == "VERB" and not lemma.endswith("+"):
            strong.add(lemma)
        for form in several:
            forms[pos][form].append(lemma.rstrip("+"))
    return {pos: dict(entries) for pos, entries in forms.items()}, frozenset(strong)


def _kinds(gold: Gold) -> dict[str, list[str]]:
    """Return for every set of parts of speech the frequent forms that occur as these."""
    letters = {pos: letter for letter, (pos, _) in KINDS.items()}
    counts: dict[str, Words] = defaultdict(Counter)
    for (word, pos, _), count in gold.items():
        counts[fold_case(word)][letters.get(pos, _CLOSED)] += count
    forms: dict[str, list[str]] = defaultdict(list)
    for form, seen in sorted(counts.items()):
        total = seen.total()  # single letters are short for anything, as in "u" and "r"
        if total >= _FREQUENT and form.strip("'").isalpha() and (len(form) > 1 or form in "ai"):
            frequent = [letter for letter, n in seen.items() if n >= max(2, _SHARE * total)]
            forms["".join(sorted(frequent))].append(form)
    return dict(sorted(forms.items()))


def _ordered(table: Table) -> Table:
    return {pos: dict(sorted(entries.items())) for pos, entries in sorted(table.items())}


if __name__ == "__main__":
    main()
