"""What is wrong on a page: axe-core (WCAG 2.2, A and AA, in light and dark), and focus that nobody sees."""

import base64

from axe_playwright_python.base import AXE_SCRIPT

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
THEMES = ("light", "dark")

_OPTIONS = {
    "runOnly": {"type": "tag", "values": TAGS},
    # off in axe-core unless they are asked for: the size of targets (WCAG 2.2), headings without a name
    "rules": {"target-size": {"enabled": True}, "empty-table-header": {"enabled": True}},
    "resultTypes": ["violations"],
}
_AXE = f"""(() => {{
    const WeakMap = function (key = Symbol()) {{
        return {{
            has: (to) => key in to, get: (to) => to[key], delete: (to) => delete to[key],
            set: (to, value) => {{ to[key] = value; }}, add: (to) => {{ to[key] = true; }},
        }};
    }};
    const WeakSet = WeakMap;
    {AXE_SCRIPT}
    const {{ prototype }} = axe.commons.color.Color, {{ parseString }} = prototype, known = new Map();
    prototype.parseString = function (text) {{
        if (!known.has(text)) {{
            const {{ r, g, b, alpha }} = parseString.call(this, text);
            known.set(text, {{ r, g, b, alpha }});
        }}
        return Object.assign(this, known.get(text));
    }};
}})()"""
"""axe-core in less than half its time.

It reads the same few colours again and again, and keeps what is private to them in weak maps, which are slow.
"""

_ROOTS = """(root) => [...document.querySelectorAll(root)].filter((node) => node.getClientRects().length)
    .map((node, i) => (node.dataset.axe = String(i)))"""
_RUN = """async ([index, options]) => {
    const root = index === null ? document : document.querySelector(`[data-axe="${index}"]`);
    // JupyterLab's body has no height and hides what overflows: axe-core would take all in it for hidden
    document.body.style.minHeight = "100vh";
    root.scrollIntoView?.({ block: "nearest" }); // what a container has scrolled out of sight is hidden too
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const { violations } = await axe.run(root, options);
    document.body.style.minHeight = "";
    if (root !== document) delete root.dataset.axe;
    const why = ({ any, all, none }) => [...any, ...all, ...none].map(({ message }) => message).join("; ");
    return violations.flatMap(({ id, nodes }) =>
        nodes.map((node) => `${id}: ${node.target.join(" ")}: ${why(node)}: ${node.html}`));
}"""
_CHANGE = "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"


_FINISHED = """() => {
    const moving = document.getAnimations().filter((animation) => animation.playState === "running");
    for (const animation of moving)
        if (animation.effect.getComputedTiming().endTime !== Infinity) animation.finish();
    return !moving.length;
}"""


def still(page):
    """Bring all that moves to its end, and what that sets in motion; wait for what has none."""
    page.wait_for_function(_FINISHED)


def show_theme(page, theme):
    """Show a page in the theme "light" or "dark", and wait until nothing moves."""
    page.emulate_media(color_scheme=theme)
    if page.evaluate("Boolean(window.jupyterapp)"):
        name = f"JupyterLab {theme.capitalize()}"
        page.evaluate(_CHANGE, name)
        page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)
    still(page)


def violations(page, root=None, theme=None):
    """Return what axe-core finds wrong, a line for each rule and element.

    Parameters
    ----------
    page : playwright.sync_api.Page
    root : str, optional
        CSS selector of the elements to check, each with what it holds; hidden ones are left out. By default
        the whole document, with its title and language.
    theme : {"light", "dark"}, optional
        Theme to show first: JupyterLab's, or that of a page that follows the browser's.

    Raises
    ------
    AssertionError
        If no visible element matches `root`.
    """
    if theme is not None:
        show_theme(page, theme)
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(_AXE)
    indices = [None] if root is None else page.evaluate(_ROOTS, root)
    assert indices, f"nothing visible matches {root}"
    return [line for index in indices for line in page.evaluate(_RUN, [index, _OPTIONS])]


_DIFFERENCE = """async (pictures) => {
    const read = async (text) => {
        const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
        const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
        const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
        canvas.drawImage(picture, 0, 0);
        return canvas.getImageData(0, 0, picture.width, picture.height).data;
    };
    const [a, b] = await Promise.all(pictures.map(read));
    const [wholes, others] = [a, b].map(({ buffer }) => new Uint32Array(buffer)); // most pixels are the same
    let changed = 0;
    for (let n = 0; n < wholes.length; n++)
        if (wholes[n] !== others[n])
            changed += [0, 1, 2].some((colour) => Math.abs(a[4 * n + colour] - b[4 * n + colour]) > 40);
    return changed;
}"""
_FOCUSED = """(() => {
    let node = document.activeElement;
    while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
    return node;
})()"""
_SEEN = 100  # pixels that change with the focus


def unseen_focus(page, tabs):
    """Walk a page by as many presses of Tab; return the elements that look the same with and without focus.

    An outline that a container cuts off, or of the colour that it stands on, is none that anybody sees.
    """
    judge, unseen = page.context.new_page(), []
    for _ in range(tabs):
        page.keyboard.press("Tab")
        focused = page.evaluate(f"{_FOCUSED}.outerHTML.slice(0, 100)")
        if focused.startswith("<body"):
            break
        pictures = [page.screenshot(animations="disabled")]
        page.evaluate(f"{_FOCUSED}.blur()")  # the next Tab goes on from here
        pictures.append(page.screenshot(animations="disabled"))
        if judge.evaluate(_DIFFERENCE, [base64.b64encode(picture).decode() for picture in pictures]) < _SEEN:
            unseen.append(focused)
    judge.close()
    return unseen
