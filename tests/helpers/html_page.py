"""What a browser would make of HTML."""

from html.parser import HTMLParser

VOID = {"meta", "col", "img", "br", "wbr"}


class Page(HTMLParser):
    """Elements, attributes, open elements, and the text outside of the style; nothing is run or loaded."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.parts, self.open = [], [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        assert not [name for name, _ in attrs if name.startswith("on") or name in {"src", "href"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.parts.append(data)

    @property
    def text(self):
        return "".join(self.parts)
