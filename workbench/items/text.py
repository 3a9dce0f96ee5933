"""Text: Treebank tokens to readable text and back, sentences, and the place of a blank.

The LAMBADA release holds Penn Treebank tokens with a space between them: brackets are
``-lrb-``, double quotes are two backquotes or two apostrophes, contractions are split (``did n't``).
Sentences end by the rule that made the release: after ``.`` or a token of ``?`` and ``!``, with the closing
quotes after it.
"""

# ruff: noqa: RUF001, RUF002 - typographic quotes and dashes are what this module is about

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

Span = tuple[int, int]

# A token of one period, or of question and exclamation marks only, and what may follow it
# within its sentence. Three dots are not such a token; nor is an abbreviation, which keeps its
# period. The look-behind stands second because a search for one of three letters is fast.
_FOLLOWS = r"""(?:''|["'”’)\]}]|-R[RSC]B-|\.|[!?]+)"""
_END = re.compile(rf"[.!?](?<!\S.)(?:(?<=\.)|(?<=[!?])[!?]*)(?!\S)(?:\s+{_FOLLOWS}(?!\S))*", re.IGNORECASE)
_FOLLOWING, _ENDING = re.compile(_FOLLOWS, re.IGNORECASE), re.compile(r"\.|[!?]+")
_ENDS = re.compile("e[ef]*")  # in a row of such kinds
_PARAGRAPH = re.compile(r"\n\s*\n")
_MAY_CUT = re.compile(r"[.!?](?=.*\S)|\n\s*\n", re.DOTALL)


def sentences(text: str, *, tokenised: bool = True, paragraphs: bool = True) -> list[Span]:
    """Find the sentences of a text.

    A sentence ends after a token that is one period or a run of question and exclamation
    marks, with the closing quotes, closing brackets and further such tokens that follow. Case, the
    next word, colons, semicolons, dashes and three dots (``...``) end nothing; so ``what ? '' she
    asked .`` are two sentences, ``well ... He left .`` is one, and case changes no cut.

    Parameters
    ----------
    text : str
        Treebank tokens with white space between them, or running text.
    tokenised : bool, default True
        False for running text: it is cut into tokens by `tokenize`, and the same rule is applied.
    paragraphs : bool, default True
        Whether a blank line in running text ends a sentence too. False for LAMBADA, which has none.

    Returns
    -------
    list of (int, int)
        Character offsets into `text`, end excluded, in order, without white space at either
        end. Every character that is not white space is in exactly one of them.

    Notes
    -----
    The rule is that of the Stanford CoreNLP sentence splitter (Manning et al. 2014, section 4, annotator
    ``ssplit``). It can be checked: a context is the fewest whole sentences of more than 50 tokens before the
    target sentence (Paperno et al. 2016, section 3), so the number of tokens reveals a wrong cut: none in
    the 4,869 development passages, 114 if three dots ended a sentence.
    """
    if tokenised:
        return _sentences_of(text)
    if not _MAY_CUT.search(text):  # the tokens need not be known
        return [(len(text) - len(text.lstrip()), len(text.rstrip()))] if text.strip() else []
    tokens = scan(text)
    codes = {piece: kind_of_token(piece) for piece in {piece for piece, _, _ in tokens}}
    edges = edges_of_kinds("".join([codes[piece] for piece, _, _ in tokens]))
    if paragraphs:
        begins = [begin for _, begin, _ in tokens]
        edges.update(bisect_left(begins, match.end()) for match in _PARAGRAPH.finditer(text))
    return [(tokens[begin][1], tokens[end - 1][2]) for begin, end in pairwise(sorted(edges))]


def tokens_and_paragraphs(text: str, *, tokenised: bool = True) -> tuple[list[str], list[int]]:
    """Return the tokens of a text, and the positions of blank lines among them."""
    if tokenised:
        return text.split(), []
    tokens: list[str] = []
    paragraphs: list[int] = []
    blanks = (match.end() for match in _PARAGRAPH.finditer(text))
    blank = next(blanks, len(text))
    for start, _, pieces in _matches(text):
        while start >= blank:
            paragraphs.append(len(tokens))
            blank = next(blanks, len(text) + 1)
        tokens += pieces
    return tokens, paragraphs


def joined_spans(lines: Iterable[str]) -> list[Span]:
    """Return the span of each line in the text that they make when joined by line feeds."""
    starts = accumulate((len(line) + 1 for line in lines), initial=0)
    return [(start, end - 1) for start, end in pairwise(starts)]


def edges_of_kinds(codes: str) -> set[int]:
    """Return the index of the first token of every sentence, and the end, from the kind of each token."""
    return {0, len(codes), *(match.end() for match in _ENDS.finditer(codes))}


def kind_of_token(token: str) -> str:
    """Return "e" for a token that ends a sentence, "f" for one that may follow it there, else "x"."""
    if not _FOLLOWING.fullmatch(token):
        return "x"
    return "e" if _ENDING.fullmatch(token) else "f"


def _sentences_of(text: str) -> list[Span]:
    """Find the sentences of tokens that have white space between them."""
    spans = []
    for start, end in pairwise([0, *(match.end() for match in _END.finditer(text)), len(text)]):
        if sentence := text[start:end].strip():
            begin = text.index(sentence[0], start)
            spans.append((begin, begin + len(sentence)))
    return spans


_CLITICS = frozenset({"'s", "'m", "'d", "'ll", "'re", "'ve", "n't"})
_OPEN = {"``": "“", "`": "‘", "-lrb-": "(", "-lsb-": "[", "-lcb-": "{", "(": "(", "[": "[", "{": "{"}
_CLOSE = {"''": "”", "-rrb-": ")", "-rsb-": "]", "-rcb-": "}", "...": "..."}
_PUNCTUATION = re.compile(r"[.,;:!?]+|[)\]}%´]")  # the last is an apostrophe in some books
_PAIRS = frozenset(
    ["can not", "gon na", "wan na", "got ta", "gim me", "lem me", "'t is", "'t was", "d' ye", "d' you"]
    + [f"´ {tail}" for tail in ("s", "m", "d", "ll", "re", "ve", "t")]
)
_SECONDS = frozenset(pair.split()[1] for pair in _PAIRS)
_MONEY = frozenset("$£€#")


@lru_cache(maxsize=1 << 16)
def _shape(piece: str) -> tuple[str, bool, bool, bool]:
    """Return a token as shown, and whether it joins the one before, the one after, and depends on both."""
    low = piece.lower()
    if low in _OPEN:
        return _OPEN[low], False, True, piece == "`"
    if low in _CLOSE:
        return _CLOSE[low], True, False, piece == "..."
    if _PUNCTUATION.fullmatch(piece):
        return piece, True, False, piece == "."
    display = piece.replace("'", "’")
    depends = piece in {"--", '"', "'"} or low in _SECONDS or piece[:1].isdigit()
    return display, low in _CLITICS, False, depends


def _is_cut(pieces: Sequence[str], index: int) -> bool:
    """Return whether a token is a hyphen between two words."""
    if pieces[index] != "-" or not 0 < index < len(pieces) - 1:
        return False
    return pieces[index - 1][-1:].isalnum() and bool(re.match(r"[@\w]", pieces[index + 1]))


def _layout(pieces: Sequence[str], *, cut_at_hyphens: bool) -> Iterator[tuple[bool, str]]:
    """Yield for every token whether a space is before it, and its text as shown."""
    before, tight = "", True
    double = single = False  # within plain double quotes, within single quotes
    for index, piece in enumerate(pieces):
        at_hyphen = cut_at_hyphens and _is_cut(pieces, index)
        display, joined, joins, depends = ("-", True, True, False) if at_hyphen else _shape(piece)
        if depends:
            ended = before[-1:] in {".", "!", "?"} and before != "..."
            following = pieces[index + 1] if index + 1 < len(pieces) else ""
            if piece == "`":
                single = True
            elif piece == '"':
                double = not double
                display, joined, joins = ("“", False, True) if double else ("”", True, False)
            elif piece == "'":
                mark = not before[-1:].isalnum()  # the release opens with it before one letter: . ' I
                letter = len(following) == 1 and following.isalpha()
                joins = not index or before == "'" or (mark and letter and not single)
                display, joined, single = "‘" if joins else "’", not joins, joins or (single and not mark)
            elif piece == "--":
                display, joins = "—", True
                joined = not ended and before not in {"''", "'", '"'}
            elif piece == "...":
                joined = not ended
            elif piece == ".":
                doubled = before[-1:] == "." and before[-2:-1].isalnum() and following[:1] != "."
                display = "" if doubled else "."
            elif before in _MONEY:
                joined = piece[0].isdigit()
            else:
                joined = f"{before} {piece}".lower() in _PAIRS
        yield not (tight or joined), display
        tight, before = joins, piece


def readable(text: str) -> str:
    """Return Treebank tokens, with white space between them, as a book would print them, in one line.

    Notes
    -----
    The substitutions are: backquotes and apostrophes used as quotes, and ``"``, become “ ” ‘ ’; an
    apostrophe in a word ’; ``-lrb-`` and its like the bracket; ``--`` an em dash without spaces (one before
    it after the end of a sentence or a closing quote); the period after an abbreviation that has one
    already is left out (``etc. .``). All else stays, three dots included, with the spaces of print:
    contractions joined (``did n't``, ``can not``, ``gon na``, ``'t was``), no space before ``, . ; : ! ? )
    % ...``, after an opening quote or bracket, or after a currency sign. A hyphen between spaces keeps
    them, as it may be a dash.
    """
    layout = _layout(text.split(), cut_at_hyphens=False)
    return "".join(f" {display}" if space else display for space, display in layout)


_SPACED = re.compile(r"(?<!\.) (?=[,;:!?]+(?:\s|$)|\.(?:\s(?!\.)|$))")


def closed_up_spans(text: str, spans: Iterable[Span]) -> tuple[str, list[Span]]:
    """Return running text without the spaces that a release puts before punctuation, and spans in it.

    This is the form of the sentence completion challenge: ``As I descended , my old ally``. Text without a
    detached comma, semicolon or period is returned as it is; dots with spaces between them stay.
    """
    spaces = [match.start() for match in _SPACED.finditer(text)]
    if not any(text[space + 1] in ",;." for space in spaces):
        return text, list(spans)
    edges = zip([0, *(space + 1 for space in spaces)], [*spaces, len(text)], strict=True)
    closed_up = "".join(text[start:end] for start, end in edges)
    return closed_up, [
        (start - bisect_left(spaces, start), end - bisect_left(spaces, end)) for start, end in spans
    ]


def readable_spans(
    text: str, spans: Iterable[Span], *, cut_at_hyphens: bool = False
) -> tuple[str, list[Span]]:
    """Return Treebank tokens as `readable` does, and the place of each span in that text.

    An empty span with white space (or an end of the text) on both sides is a blank: it keeps the spaces of a
    word around it. A span that is not empty loses the white space at its ends; one that ends within a token
    that is shown with another length is widened to the whole token. An empty span stays empty, and at the
    end of a token stays there; one of white space alone, or of a period left out, becomes empty. Where the
    words of the release were `cut_at_hyphens` (``off - season``), they are joined.

    Raises ValueError if a span is not within `text` or ends before it starts.
    """
    wanted = list(spans)
    for start, end in wanted:
        if not 0 <= start <= end <= len(text):
            raise ValueError(f"the span ({start}, {end}) is not within a text of {len(text)} characters")
    tokens = [match.span() for match in re.finditer(r"\S+", text)]
    tokens += {(i, end) for i, end in wanted if i == end and not text[max(0, i - 1) : i + 1].strip()}
    tokens.sort()
    shapes = _layout([text[start:end] for start, end in tokens], cut_at_hyphens=cut_at_hyphens)
    words, extents, length = [], [], 0
    for (space, display), (start, end) in zip(shapes, tokens, strict=True):
        words.append(f" {display}" if space else display)
        extents.append((length + space, length + space + len(display), len(display) == end - start))
        length = extents[-1][1]
    starts, ends = [start for start, _ in tokens], [end for _, end in tokens]

    def move(start: int, end: int) -> Span:
        first, last = bisect_right(ends, start), bisect_left(starts, end) - 1
        if start == end or first > last:  # no token, or a place only
            index = bisect_left(ends, start)
            lower, upper, same = extents[index] if index < len(tokens) else (length, length, False)
            moved = lower + max(0, start - starts[index]) if same else lower
            return (upper, upper) if start in ends[index : index + 1] else (moved, moved)
        lower, _, same = extents[first]
        begin = lower + max(0, start - starts[first]) if same else lower
        lower, stop, same = extents[last]
        return begin, lower + min(end, ends[last]) - starts[last] if same else stop

    return "".join(words), [move(start, end) for start, end in wanted]


_TITLES = "Adm|Capt|Col|Cpl|Drs|Fr|Gen|Gov|Hon|Lieut|Lt|Maj|Messrs|Mlle|Mme|Mt|Pres|Prof|Pvt|Rep|Rev|Sen|Sgt"
_SHORT = r"Apr|Aug|Ave|Bros|Co|Corp|Dec|Dept|Esq|Feb|Inc|Jan|Jr|Ltd|Nov|Oct|Ph\.D|Rd|Sept|Sr|St|al|cf|etc|vs"
_STARTERS = (  # words that seldom are a part of a name
    r"A|After|All|An|And|As|At|Because|Before|But|Even|For|From|He|Her|His|How|I(?!\.)|If|In|It|Its|Just|Maybe"
    "|My|No|Not|Nothing|Now|On|Once|Only|Our|Perhaps|She|So|Some|Still|Suddenly|That|The|Their|Then|There|These"
    "|They|This|Those|We|Well|What|When|Where|While|Who|Why|Without|Yes|You|Your"
)
_LETTERS = 99  # of an abbreviation such as U.S.A.: without a bound, a long row of them takes quadratic time
_LETTER, _ALNUM = r"[^\W\d_]", r"[^\W_][\u0300-\u036f]*"
_NEXT = rf"""["'”’)]*\s+["'“‘(]*(?:{_STARTERS})\b"""
_PLAIN = r"""(?: (?:[A-Z]?[a-z]++|[AI])(?:(?<!\b[Dd])['’-][a-z]++)*+[,;:!?]?+
    | [a-z]{3,}+(?<!etc)(?<!\b[md]rs)(?<!\bvol)(?<!\bvols)\.(?![ ]\.) )(?=[ \n"”—]|--)"""
_TOKEN = re.compile(
    rf"""
      (?P<plain>{_PLAIN}(?:[ \n]{_PLAIN})*+)  # most text: nothing below says otherwise, and it is quick
    | (?P<dots>…|\.\.\.|\.(?:[^\S\n]\.){{2}})
    | (?P<dash>-{{2,}}|[‒–—―])
    | (?P<mark>[!?]+|\*+|_+|~+|[#]+|=+|``|'')
    | (?P<double>["“”„«»])
    | (?P<bracket>[()\[\]{{}}])
    | (?P<short>(?P<open>(?:{_LETTER}\.){{2,{_LETTERS}}}+(?!\w) | (?:{_SHORT})\.(?!\w))
        | (?:{_LETTER}\.){{1,{_LETTERS}}}+{_LETTER}(?![\w.]) | [MmDd]rs?\.(?!\w) | [Mm]s\.(?!\w)
        | (?:{_TITLES})\.(?!{_NEXT})(?=\s+["'“‘]?[^\W_a-z])
        | [^\W\d_a-zI]\.(?!{_NEXT})(?=[ ]?[^\W\d_a-z])
        | I\.(?=[ ]?[^\W\d_a-z]\.)
        | (?:No|Nos|p|pp|vol|vols)\.(?=[ ]?\d))
    | (?P<elided>(?<=[\w.”"])['’](?:s|m|d|ll|re|ve)\b
        | ['’](?:em|til|cause|bout|cept|neath|n|\d\ds?)\b
        | ['’][Tt](?=(?:is|was)\b) | (?<!\w)’(?:{_ALNUM})+
        | [Oo]l['’](?=\s) | [Dd]['’](?=ye\b|you\b))
    | (?P<single>['’‘`])
    | (?P<word>(?:{_ALNUM})+(?:[-‐‑'’/&](?:{_ALNUM})+|(?<=\d)[.,:](?=\d)(?:{_ALNUM})+)*)
    | (?P<other>\S)
    """,
    re.VERBOSE,
)
_TAIL = re.compile(r"(?<=\w)(?:n['’]t|['’](?:s|m|d|ll|re|ve))$", re.IGNORECASE)
_LONGEST_TAIL, _SHORTEST = len("n't"), len("I'm")
_SPLIT = frozenset({"cannot", "gonna", "wanna", "gotta", "gimme", "lemme"})  # after three letters
_SPLIT_AS_WRITTEN = _SPLIT | {word.capitalize() for word in _SPLIT}
_STARTING = re.compile(_NEXT)
_QUOTES = {"“": "``", "„": "``", "«": "``", "”": "''", "»": "''", "‘": "`", "`": "`"}
_BRACKETS = dict(zip("()[]{}", ("-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-"), strict=True))
_OPENERS = frozenset({"``", "`", "-LRB-", "-LSB-", "-LCB-"})


def tokenize(text: str) -> list[str]:
    """Cut running cased English text into Penn Treebank tokens, as the LAMBADA release has them.

    Notes
    -----
    Double quotes, straight or typographic, become two backquotes or two apostrophes, single ones one; a
    straight quote opens where something follows it and nothing, an opening quote or a bracket stands before
    it. Contractions are split (``did n't``, ``she 's``, ``can not``, ``gon na``), an apostrophe within a
    word is kept (``o'clock``, ``'em``), one after a word stands alone. Dashes become ``--`` (a hyphen
    stays), three dots ``...``, brackets ``-LRB-`` and so on. Titles, initials and abbreviations keep their
    period, and another period follows one (not a title) where a word that starts sentences comes next
    (``etc. .``). Words joined by a hyphen, numbers such as 9:30 or 1,000, ``?!`` and ``***`` are one token.

    In the style of the Treebank tokenizer (Marcus et al. 1993), written afresh. It undoes
    `readable` but for the turns of Stanford's program, which made the release.
    """
    return [piece for _, _, pieces in _matches(text) for piece in pieces]


# These begin with their mark, which a search finds fast.
_UNDERSCORES = re.compile(r"_(?:(?<!\w_)_?+(?=[^\s_])|(?<=[^\s_]_)_?+(?!\w))")
_PAIRED = {
    mark: re.compile(
        rf"({re.escape(mark)}(?<![\w{mark}].)[{mark}]{{0,2}}+)(?=[^\s{mark}])"
        rf"((?:[^{mark}\n]|\n(?![ \t]*\n))++)(?<=\S)\1(?![\w{mark}])"
    )
    for mark in "*=~"
}


def without_emphasis(text: str) -> str:
    """Remove marks of emphasis from the words of a plain-text novel: ``_so_``, ``*so*``, ``=so=``, ``~so~``.

    One or two underscores go at the edge of a word or of a mark of punctuation, as many books close them in
    another paragraph. Up to three of the others go where they stand in pairs, before and after text of one
    paragraph. So the asterisk of a footnote, ``snake_case``, the blank ``____``, and the rule ``* * *`` stay.
    """
    if "_" in text:
        text = _UNDERSCORES.sub("", text)
    for mark, pattern in _PAIRED.items():
        if mark in text:
            text = pattern.sub(r"\2", text)
    return text


def scan(text: str) -> list[tuple[str, int, int]]:
    """Cut running text as `tokenize` does: tokens with start and end (a period added is empty)."""
    tokens: list[tuple[str, int, int]] = []
    for start, end, pieces in _matches(text):
        if len(pieces) == 1:
            tokens.append((pieces[0], start, end))
            continue
        position = start
        for piece in pieces:
            position += text[position] in " \n"
            tokens.append((piece, position, position := position + len(piece)))
    return tokens


def _matches(text: str) -> Iterator[tuple[int, int, Sequence[str]]]:
    """Yield start and end of a match, and its tokens: one, or several as long as they are in the text."""
    last = ""  # token
    quoted = False  # within straight double quotes
    for match in _TOKEN.finditer(text):
        group, piece = match.lastgroup, match[0]
        start, end = match.span()
        if group == "plain":
            pieces: Sequence[str] = _words(piece)
        elif group == "word":
            pieces = _split(piece)
        elif group == "double":
            opens = _opens(text, start, last, quoted=quoted)
            piece = _QUOTES.get(piece) or ("``" if opens else "''")
            quoted = piece == "``"
            pieces = (piece,)
        elif group == "single":
            opens = piece == "'" and _opens(text, start, last, quoted=True)
            pieces = (_QUOTES.get(piece) or ("`" if opens else "'"),)
        elif group == "bracket":
            pieces = (_BRACKETS[piece],)
        else:
            pieces = ({"dots": "...", "dash": "--"}.get(str(group)) or piece.replace("’", "'"),)
        last = pieces[-1]
        yield start, end, pieces
        if match["open"] and _STARTING.match(text, end):
            last = "."
            yield end, end, (".",)


def _words(text: str) -> Sequence[str]:
    """Return the tokens of plain text: cut at white space, a mark apart, contractions split."""
    for mark in ".,;:!?":
        if mark in text:  # faster than a pattern
            text = text.replace(mark, f" {mark}")
    words = text.split()
    if "'" in text or "’" in text or not _SPLIT_AS_WRITTEN.isdisjoint(words):
        return [token for word in words for token in (_split(word) if len(word) >= _SHORTEST else (word,))]
    return words


@lru_cache(maxsize=1 << 16)
def _split(word: str) -> tuple[str, ...]:
    """Split the contractions of one word off."""
    cuts = [len(word)]
    if word.lower() in _SPLIT:
        cuts.append(3)
    while tail := _TAIL.search(word, max(0, cuts[-1] - _LONGEST_TAIL), cuts[-1]):
        cuts.append(tail.start())
    return tuple(word[start:end].replace("’", "'") for start, end in pairwise([0, *reversed(cuts)]))


def _opens(text: str, offset: int, last: str, *, quoted: bool) -> bool:
    """Return whether the straight quote at an offset opens a quotation; `last` is the token before."""
    after, before = text[offset + 1 : offset + 2], text[max(0, offset - 1) : offset]
    if not before or before.isspace():
        return bool(after.strip()) or not quoted
    if last in _OPENERS:
        return bool(after.strip())
    # Without a space: "he said--'go'" and "said.""Go" open, "but--" and "go," do not.
    after = text[offset + 1 : offset + 3].lstrip("'\"“‘")[:1]
    is_word = after.isalnum() or after in {"$", "£", "€"}
    return is_word and not before.isalnum() and (last == "--" or not quoted)


_BRACKET_MARKS = frozenset(mark for mark in (*_OPEN, *_CLOSE) if mark.startswith("-"))
_UNSPACED = re.compile(  # Thai to Burmese, Khmer, Chinese and Japanese
    "[\u0e00-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]{2}"
)
_OPENING = "\"'`“‘«»„‚‹›¿¡([{*_"
_CLOSING = ".,;:!?…\"'`”’»“‘«‹›)]}*_"
# Both begin with one of a few characters, which a search finds fast, and look back a fixed length.
# The dots of an ellipsis (. . .), and a mark behind it, are apart in running text too.
_CLITIC_END = "(?:s|ll|re|ve|d|m)"
_DETACHED = re.compile(
    rf"[.,;:?!`'n](?<=\s.)(?:(?<=[.,;:?!])(?<!\.\s.)(?!\s\.(?:\s|$))"
    rf"|(?<=`)`|(?<=')(?:'|{_CLITIC_END})|(?<=n)'t)(?=\s|$)"
)
_ATTACHED = re.compile(
    rf"[.,;:?!'n](?:(?<=\w[,;:?!])|(?<=\w{{4}}\.)|(?<=\w'){_CLITIC_END}|(?<=\wn)'t)(?=\s|$)"
)


def sentences_around(text: str, answer: Span, *, tokenised: bool) -> list[Span]:
    """Cut a text into sentences; an empty blank counts as a word.

    So ``She said ___`` is one sentence, and in ``She left. ___`` the blank is a sentence of its own.
    """
    start, end = answer
    if start < end:
        return sentences(text, tokenised=tokenised)
    spans = sentences(f"{text[:start]}x{text[start:]}", tokenised=tokenised)
    return [(first - (first > start), last - (last > start)) for first, last in spans]


def after_context(text: str, context: str) -> tuple[str, int]:
    """Return a text after its context, and where it begins; a space is put in where neither has one."""
    space = " " if context and not context[-1].isspace() and not text[:1].isspace() else ""
    return f"{context}{space}{text}", len(context) + len(space)


def up_to_target(spans: Sequence[Span], answer: Span, end: int) -> tuple[Span, ...]:
    """Make the sentence that holds the answer the last one: it takes all that follows, up to `end`."""
    before = [span for span in spans if span[1] <= answer[0] and span[1] < answer[1]]
    start = spans[len(before)][0] if len(before) < len(spans) else answer[0]
    return (*before, (min(start, answer[0]), max(end, answer[1])))


def last_word(text: str, *, tokenised: bool) -> Span | None:
    """Return the span of the last word; in running text without the quotes and stops around it."""
    end = len(text.rstrip())
    start = end - len(text[:end].rpartition(" ")[2].split()[-1]) if end else 0
    if tokenised:
        return (start, end) if end else None
    return without_marks(text, start, end)


def without_marks(text: str, start: int, end: int) -> Span | None:
    """Return a span of running text without the quotes and stops around it; None if nothing is left."""
    word = text[start:end]
    start, end = end - len(word.lstrip(_OPENING)), start + len(word.rstrip(_CLOSING))
    return (start, end) if start < end else None


def final_word(text: str, *, tokenised: bool) -> Span | None:
    """Return the span of the last word, before any marks and brackets; None without a word.

    A stop at its end is not a part of it, in tokenised text too, where an abbreviation may have one.
    """
    end = len(text)
    while span := last_word(text[:end], tokenised=True):
        start, stop = span
        without_stop = start, start + len(text[start:stop].rstrip(".,;:!?…"))
        word = without_stop if tokenised else last_word(text[:end], tokenised=False)
        if (
            word
            and any(map(str.isalnum, text[slice(*word)]))
            and text[slice(*word)].lower() not in _BRACKET_MARKS
        ):
            return word
        end = span[0]
    return None


def holds_unspaced(text: str) -> bool:
    """Return whether a text has two adjacent letters of a script without spaces between words, as Chinese."""
    return bool(_UNSPACED.search(text))


def looks_tokenised(text: str) -> bool:
    """Guess whether the words are space-separated tokens: stops and clitics mostly stand alone."""
    return len(_DETACHED.findall(text)) > len(_ATTACHED.findall(text))


def is_encodable(text: str) -> bool:
    """Return whether a text can be written: JSON may hold half a surrogate pair, UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
