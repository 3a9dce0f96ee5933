"""EPUB: what is read of a book in which order, and that hostile and damaged files end in one error."""

import html
import struct

import builders as b
import pytest
from book_chapters import chapters_of
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.datasets.epub import read_epub

WEIR = "<p>The weir was loud.</p>"


def read(documents, **options):
    return read_epub(b.zipped(b.epub_files(documents, **options)), "weir.epub")


def body(content, **options):
    return read({"one.xhtml": content}, **options).text


def test_a_book_is_read_in_the_order_of_its_spine():
    documents = {"two.xhtml": "<h2>II</h2><p>Second.</p>", "one.xhtml": "<h2>I</h2><p>First.</p>"}
    spine = '<itemref idref="d1"/><itemref idref="d0"/><itemref idref="d1"/>'
    book = read(documents, spine=spine)
    assert book.text == "## I\n\nFirst.\n\n## II\n\nSecond.\n"
    assert (book.title, book.author, book.year) == ("The Weir", "A. Nonymous", None)


def test_it_is_a_book_like_others(tmp_path):
    content = b.zipped(
        b.epub_files({"1.xhtml": "<h2>I</h2><p>It rained.</p>", "2.xhtml": "<h2>II</h2><p>It snew.</p>"})
    )
    b.write(tmp_path, {"novels/weir.epub": content, "novels.zip": b.zipped({"a/weir.epub": content})})
    for path, book_id in (("novels", "weir"), ("novels/weir.epub", "weir"), ("novels.zip", "a/weir")):
        (book,) = wb.books(tmp_path / path)
        assert (book.book_id, book.title, book.author) == (book_id, "The Weir", "A. Nonymous")
        assert not book.tokenised
        assert chapters_of(book) == [[["It", "rained", "."]], [["It", "snew", "."]]]


def test_the_year_is_that_of_the_first_publication():
    dates = '<dc:date>2008-06-27</dc:date><dc:date opf:event="original-publication">1907</dc:date>'
    assert read({"1.xhtml": WEIR}, metadata=dates).year == 1907
    roles = '<dc:creator opf:role="ill">B</dc:creator><dc:creator opf:role="aut">C</dc:creator>'
    assert read({"1.xhtml": WEIR}, metadata=roles).author == "A. Nonymous and C"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<p>a <i>b</i>c\n d<br/>e</p>", "a bc d e"),
        ("loose <div>one<p>two</p>three</div> four", "loose\n\none\n\ntwo\n\nthree\n\nfour"),
        ("<h1>I<br/>The <b>Feast</b></h1><p>x</p>", "# I The Feast\n\nx"),
        ("<h3><p>I</p><p>Two</p></h3>", "### I Two"),
        ("<p>caf&eacute;&nbsp;&amp; &#8212; &lt;b&gt; &hellip;</p>", "caf\xe9\xa0& \u2014 <b> \u2026"),
        ("<p>AT&T & 1 < 2 &unknown; R&D;</p>", "AT&T & 1 < 2 &unknown; R&D;"),
        ("<p>one<br>two</p><p>three</p>", "one two\n\nthree"),
        ("<script>x</script><style>y</style><p>z<!-- w --><?php v?></p>", "z"),
        ("<p>a<sup epub:type='noteref'>1</sup>b</p><aside epub:type='footnote'>1 c</aside>", "ab"),
        ("<p>a<span epub:type='pagebreak' id='p2'>2</span>b</p>", "ab"),
        ("<section id='pg-header'><p>The Project</p></section><p>a</p>", "a"),
        ("<section epub:type='titlepage'><h1>T</h1></section><p>a</p>", "a"),
        ("<p>a<a role='doc-noteref' href='#n'>1</a>b</p><aside role='doc-footnote'>c</aside>", "ab"),
        ("<section role='doc-endnotes'><p>1 b</p></section><p>a</p>", "a"),
        ("<p>a<sup><a href='n#1'>1</a></sup>b<a href='#n2'>[2]</a> <a href='#n'><sup>*</sup></a></p>", "ab"),
        ("<p>a</p><p><a id='n'/><a href='#r'>[2]</a> A note.</p><p><sup><a href='#r'>1</a></sup> b</p>", "a"),
        (
            "<h2><a href='toc.xhtml#c'>1</a></h2><p>M<sup>r</sup> B, <a href='#l'>the lake</a></p>",
            "## 1\n\nMr B, the lake",
        ),
        (
            "<h2>Contents</h2><p><a href='1.xhtml#a'>I</a></p><p><a href='2.xhtml'>Rain</a></p><h2>I</h2>",
            "## I",
        ),
        (
            "<div class='chapter'><div><h2>I</h2></div><div><p>a</p></div></div><div><h2>II</h2>b</div>",
            "## I\n\na\n\n## II\n\nb",
        ),
        ("<p><ruby>a<rt>b</rt></ruby></p>", "a"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a\n\nb"),
    ],
)
def test_text_of_a_document(content, text):
    assert body(content) == f"{text}\n"


@pytest.mark.parametrize(
    "name", ["cover.xhtml", "title-page.html", "toc01.xhtml", "uncopyright.xhtml", "nav.xhtml"]
)
def test_what_is_no_text_of_the_author_is_left_out(name):
    assert read({name: "<p>Cover</p>", "discovery.xhtml": WEIR}).text == "The weir was loud.\n"


def test_covers_by_the_guide_and_the_list_of_contents_by_its_property():
    packed = b.epub_files({"a.xhtml": "<p>A</p>", "b.xhtml": "<p>B</p>", "c.xhtml": WEIR})
    package = packed["OPS/book.opf"]
    package = package.replace("</spine>", '</spine><guide><reference type="cover" href="a.xhtml#x"/></guide>')
    package = package.replace('id="d1"', 'id="d1" properties="nav"')
    assert read_epub(b.zipped(packed | {"OPS/book.opf": package}), "x").text == "The weir was loud.\n"


def test_encodings():
    whole = "<?xml version='1.0' encoding='{}'?><html><body><p>caf\xe9</p></body></html>"
    for name in ("iso-8859-1", "utf-8", "utf-16", "windows-1252"):
        assert body(whole.format(name).encode(name)) == "caf\xe9\n"
    assert body(whole.format("utf-8").encode("cp1252")) == "caf\xe9\n"  # it is not what it says


PARAGRAPHS = st.lists(
    st.tuples(
        st.sampled_from(["p", "div", "h2", "li", "blockquote"]),
        st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1).filter(str.strip),
    ),
    min_size=1,
    max_size=8,
)


@given(st.lists(PARAGRAPHS, min_size=1, max_size=3))
def test_all_paragraphs_are_read_in_order(chapters):
    documents = {
        f"{n}.xhtml": "".join(f"<{tag}>{html.escape(text)}</{tag}>" for tag, text in chapter)
        for n, chapter in enumerate(chapters)
    }
    marks = {"h2": "## "}
    expected = [marks.get(tag, "") + " ".join(text.split()) for chapter in chapters for tag, text in chapter]
    assert read(documents).text == "\n\n".join(expected) + "\n"


BOMB = "<!DOCTYPE html [<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY {y} '{f'&{x};' * 10}'>" for x, y in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_entities_are_neither_expanded_nor_fetched(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    assert len(body("<p>&i;</p>", head=f"{BOMB}]>")) < 100
    place = f'SYSTEM "{secret.as_uri()}"'
    external = f"<!DOCTYPE html [<!ENTITY x {place}><!ENTITY % y {place}> %y;]>"
    assert "secret" not in body("<p>&x;</p>", head=external)
    assert "secret" not in body("<p>a</p>", head=f"<!DOCTYPE html {place}>")


def test_pictures_fall_back_on_text_and_circles_end():
    loops = (
        '<item id="a" href="a.svg" media-type="image/svg+xml" fallback="b"/>'
        '<item id="b" href="b.svg" media-type="image/svg+xml" fallback="a"/>'
        '<item id="c" href="c.svg" media-type="image/svg+xml" fallback="d0"/>'
    )
    spine = '<itemref idref="a"/><itemref idref="c"/><itemref idref="d0" linear="no"/>'
    assert read({"1.xhtml": WEIR}, extra=loops, spine=spine).text == "The weir was loud.\n"


def test_a_spine_that_is_not_linear_is_read_where_there_is_no_other():
    documents = {"1.xhtml": "<p>First.</p>", "2.xhtml": "<p>Second.</p>"}
    spine = '<itemref idref="d0" linear="no"/><itemref idref="d1" linear="{}"/>'
    assert read(documents, spine=spine.format("no")).text == "First.\n\nSecond.\n"
    assert read(documents, spine=spine.format("yes")).text == "Second.\n"


def test_the_credits_of_an_epub_are_left_out(tmp_path):
    credit = "<section id='pg-header'>x</section><p>Produced by Ann Onym</p><h1>WEIR</h1>" + WEIR
    (book,) = wb.books(b.write(tmp_path, {"1.epub": b.zipped(b.epub_files({"1.xhtml": credit}))}))
    assert book.text == "# WEIR\n\nThe weir was loud.\n"


def encrypted(algorithm):
    return (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><EncryptedData>'
        f'<EncryptionMethod Algorithm="{algorithm}"/></EncryptedData></encryption>'
    )


def hostile(**changes):
    packed = b.epub_files({"1.xhtml": WEIR})
    return b.zipped({name: text for name, text in (packed | changes).items() if text is not None})


CONTAINER, BOOK, ENCRYPTION = "META-INF/container.xml", "OPS/book.opf", "META-INF/encryption.xml"
PACKAGE = b.epub_files({"1.xhtml": WEIR})[BOOK]
HOSTILE = {  # changed files
    "no container": {CONTAINER: None},
    "no package": {BOOK: None},
    "no document": {"OPS/1.xhtml": None},
    "empty container": {CONTAINER: "<container/>"},
    "no spine": {BOOK: PACKAGE.replace("itemref", "x")},
    "unknown item": {BOOK: PACKAGE.replace('idref="d0"', 'idref="x"')},
    "leads out": {BOOK: PACKAGE.replace("1.xhtml", "../../1.xhtml")},
    "absolute": {BOOK: PACKAGE.replace("1.xhtml", "/1.xhtml")},
    "empty": {"OPS/1.xhtml": ""},
    "deep": {"OPS/1.xhtml": "<div>" * 5000 + "x" + "</div>" * 5000},
    "two roots": {"OPS/1.xhtml": "<p>a</p><p>b</p>"},
    "encrypted": {ENCRYPTION: encrypted("http://www.w3.org/2001/04/xmlenc#aes256-cbc")},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_or_damaged_file_is_one_error(name):
    caught = refused(read_epub, hostile(**HOSTILE[name]), "weir.epub")
    assert caught.file.startswith("weir.epub")
    assert caught.remedy
    refused(read_epub, b"PK\x03\x04 no zip", "weir.epub")


def test_disguised_fonts_are_no_protection():
    content = hostile(**{ENCRYPTION: encrypted("http://www.idpf.org/2008/embedding")})
    assert read_epub(content, "weir.epub").text == "The weir was loud.\n"


def test_a_locked_zip_is_said_to_be_encrypted():
    content = bytearray(hostile())
    place = content.rindex(b"PK\x01\x02")  # of a file in the directory: its flags come 8 bytes on
    content[place + 8 : place + 10] = struct.pack("<H", 1)
    refused(read_epub, bytes(content), "weir.epub")
