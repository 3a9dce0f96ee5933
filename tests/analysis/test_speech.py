# ruff: noqa: RUF001 - typographic quotes are meant
import pytest
from braced_items import cloze, passages
from hypothesis import assume, given
from hypothesis import strategies as st

from workbench.analysis import speech as module
from workbench.analysis.speech import speech, speech_spans


def marked(text):
    """Take tokens with brackets around the speech; return them without, and the spans."""
    words, spans, begin = [], [], 0
    for piece in text.split():
        if piece == "[":
            begin = len(words)
        elif piece == "]":
            spans.append((begin, len(words)))
        else:
            words.append(piece)
    return words, spans


@pytest.mark.parametrize(
    "text",
    [
        # the marks (those of `STYLES` are drawn below)
        "he came in . [ `` hello , '' ] he said . [ `` who is there ? '' ]",
        "he came in . [ „ hello , “ ] he said . [ „ who is there ? “ ]",
        "he came in . [ „ hello , ” ] he said .",
        # open at an end of the passage
        "he turned and said , [ `` look at the dog ]",
        "he turned and said , [ ' look at the dog ]",
        'he turned and said , [ " look at the dog ]',
        "[ it is late , '' ] he said , [ `` come home . '' ]",
        '[ it is late , " ] he said , [ " come home . " ] they went .',
        "[ it is late , ' ] he said , [ ' come home . ' ] they went .",
        "[ it is late . '' ]",
        # a paragraph repeats the mark
        "[ `` it rained . `` it snowed . `` we stayed . '' ] she went on .",
        "[ “ it rained . “ it snowed . ” ] she went on .",
        '[ " it rained . " it snowed , " ] said he . [ " we stayed , " ] said she .',
        # within speech
        "[ `` he said ` come in ' to me , '' ] she told him .",
        '[ " he said , \' come in , \' to me , " ] she told him . [ " yes . " ] he went .',
        "[ “‘ come in , ’ he said to me , ” ] she told him .",
        "[ “ and he said , ‘ come in . ’” ] she smiled .",
        "[ ` he said `` come in '' to me , ' ] she told him .",
        "[ ` he said `` the end . '' and the dogs ' tails , ' ] she told him .",
        "[ “ i read the “ spectator , ” and slept , ” ] she told him .",
        # apostrophes
        "the dogs ' tails and the boys ' caps were wet .",
        "she 's late , did n't she say ? i 'll go , you 've won .",
        "give 'em time , ' tis o'clock , ' twas the '60s and rock ' n ' roll .",
        "we were goin ' home an ' sleepin ' there , th ' end o ' the day .",
        "[ ' the dogs ' tails are wet , ' ] he said . [ ' give ' em time . ' ] she left .",
        "[ ‘ the dogs ’ tails are wet , ’ ] he said . [ ‘ give ’ em time . ’ ] she left .",
        "[ `` the dogs ' tails are goin ' to be wet , '' ] he said .",
        "[ `` ' tis late , '' ] he said .",
        "he saw ‘ em and ` em and ' em run .",
        # one token closes and opens
        "[ ‘ yes . ’“ no . ” ] he said .",
        # terms and titles
        "they called him `` the boy '' and laughed .",
        "known to all as “ tuppence . ” he came .",
        'a word like " service " is not speech .',
        "the jar was labelled ‘ orange marmalade ’ , but it was empty .",
        "she shook off the ' copy ' and went .",
        'who was " dear " to her , and " good " to him . [ " yes , " ] he said .',
        # short speech is no term
        "who said [ `` exactly '' ] to her remarks .",
        "[ `` yes . '' ] [ `` no ! '' ] [ `` oh ? '' ]",
        "and [ “ sit up straight , please , as you should , my boy ; ” ] and she left .",
        "[ ‘ and what is the use of a book , ’ ] thought alice [ ‘ without pictures or conversations ? ’ ]",
        # nothing
        "",
        "it rained .",
        "she made a -- pause ; and went : there .",
    ],
)
def test_examples(text):
    words, spans = marked(text)
    assert speech_spans(words) == spans


MARKS = ["``", "''", '"', "“", "”", "„", "«", "»", "`", "'", "‘", "’", "“‘", "’”", "''\"", "'\""]
WORDS = "a Dogs SAID he goin tis em É İ ẞ ΑΣ . , ? -- ... 's".split()  # noqa: SIM905
ANY = st.lists(st.sampled_from(MARKS + WORDS), max_size=24)


@given(ANY)
def test_spans_are_ranges_in_order(words):
    spans = speech_spans(words)
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(edges)
    assert all(0 <= start < end <= len(words) for start, end in spans)
    for start, end in spans:
        assert words[start] in module._MARKS or start == 0
        assert words[end - 1] in module._MARKS or end == len(words)
    if not set(words) & set(MARKS):
        assert spans == []


@given(ANY)
def test_case_does_not_matter(words):
    assert speech_spans([word.lower() for word in words]) == speech_spans(words)
    assert speech_spans(tuple(words)) == speech_spans(words)
    if all(map(str.isascii, "".join(words))):
        assert speech_spans([word.upper() for word in words]) == speech_spans(words)


# Texts whose speech is known by the way they are made.
NARRATION = [
    "It rained .", "The dogs ' tails were wet .", "She gave 'em back and looked at John 's boots .",
    "Nobody moved ; the man in the hall did n't look up .", "They were goin ' home at six o'clock .",
]  # fmt: skip
SPOKEN = [
    "It is late", "Come home . We wait for you", "Where are the boys ' caps", "I do n't know ... not yet",
    "No", "Who told you that ? I did n't",
]  # fmt: skip
STYLES = [("``", "''"), ("“", "”"), ('"', '"'), ("«", "»"), ("`", "'"), ("‘", "’"), ("'", "'")]


@st.composite
def dialogues(draw):
    """Draw a text that starts and ends with narration, or in speech where its marks have a direction."""
    opening, closing = draw(st.sampled_from(STYLES))
    parts = draw(st.lists(st.tuples(st.sampled_from(SPOKEN), st.integers(0, 3)), min_size=1, max_size=5))
    begun = draw(st.booleans()) and opening not in {'"', "'", "`", "‘"}
    ended = draw(st.booleans())
    words = [] if begun else draw(st.sampled_from(NARRATION)).split()
    spans = []
    for number, (spoken, kind) in enumerate(parts):
        start = len(words)
        words += [opening] * (number > 0 or not begun) + spoken.split()
        if ended and number == len(parts) - 1 and (number or not begun):
            return words, [*spans, (start, len(words))]
        words += [["?", ".", "!", ","][kind], closing]
        spans.append((start, len(words)))
        words += ["he", "said", "."] if kind == 3 else draw(st.sampled_from(NARRATION)).split()
    return words, spans


@given(dialogues())
def test_known_speech_is_found(text):
    words, spans = text
    assert speech_spans(words) == spans


def readings(words):
    """Yield the cost and spans of every reading of a passage, one after another: slow and plain."""
    low = [word.lower() for word in words]
    marks = module._marks(words)
    plain = [place for place, word in enumerate(low) if word not in module._MARKS]

    def onward(number, place, spans, opened, cost):
        held = 1 <= place <= 8  # within speech
        last = marks[number - 1].token if number else 0
        if number == len(marks):
            if place in module._FINAL:
                total = cost + module._FINAL[place] + held * module._PER_TOKEN * (len(low) - last)
                yield total, spans if place == 0 else [*spans[:-1], (spans[-1][0], len(low))]
            return
        mark = marks[number]
        cost += held * module._PER_TOKEN * (mark.token - last)
        ways = module._WAYS_OF_DOUBLE if mark.double else module._WAYS_OF_SINGLE
        for start, end, does, extra in ways:
            if start != place or (does == module._CLOSE_TERM and mark.token - opened > 8):
                continue
            now = list(spans)
            if start in {0, 9, 10} and end not in {0, 9, 10}:
                now.append((mark.token, None))
            if start not in {0, 9, 10} and end == 0:
                now[-1] = (now[-1][0], mark.token + 1)
            at = mark.token if does == module._OPEN_TERM else opened
            yield from onward(number + 1, end, now, at, cost + module._costs(low, plain, mark)[does] + extra)

    for place, cost in module._START.items():
        yield from onward(0, place, [(0, None)] if place else [], 0, cost)


@given(st.lists(st.sampled_from(MARKS[:12] + WORDS), max_size=12))
def test_the_cheapest_of_all_readings_is_found(words):
    assume(len(module._marks(words)) <= 5)
    found = sorted(readings(words), key=lambda reading: reading[0])
    best = [spans for cost, spans in found if cost <= found[0][0] + 1e-9]
    assert speech_spans(words) in best


@given(passages())
def test_characters_of_an_item(item):
    words = item.text.split()
    wanted = [words[start:end] for start, end in speech_spans(words)]
    assert [item.text[start:end].split() for start, end in speech(item)] == wanted


RUNNING = [
    ('She came. "Is it late?" he said. "Yes, {John}." She left.', ['"Is it late?"', '"Yes, John."']),
    ("‘Well,’ said the dogs’ master, ‘give ’em the {bone}.’", ["‘Well,’", "‘give ’em the bone.’"]),
]
TOKENISED = [
    ("he turned and said , `` come here , {john}", ["`` come here , john"]),
    ("he said , `` come here , {} ! '' and left", ["`` come here ,  ! ''"]),
]


@pytest.mark.parametrize(("texts", "tokenised"), [(RUNNING, False), (TOKENISED, True)])
def test_speech_around_the_target_and_in_running_text(texts, tokenised):
    for text, spoken in texts:
        item = cloze(text, tokenised=tokenised)
        assert [item.text[start:end] for start, end in speech(item)] == spoken


@pytest.mark.data
def test_case_does_not_matter_in_lambada(real_data):
    from workbench.datasets import load  # noqa: PLC0415 - only where the data is

    plain, cased = (load("lambada", "dev", variant=name, path=real_data) for name in ("plain", "capitalised"))
    assert [speech(item) for item in plain] == [speech(item) for item in cased]
