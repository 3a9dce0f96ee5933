"""What tests look for in both themes: text that can be read, and nothing that is cut off."""

THEMES = ["JupyterLab Light", "JupyterLab Dark"]

CLIPPED = """() => [...document.querySelectorAll('.wb-browser, .wb-browser *')].filter((n) => {
    if (!n.getClientRects().length || n.closest('.wb-list, .wb-head')) return false;
    const box = n.getBoundingClientRect();
    const root = document.querySelector('.wb-browser').getBoundingClientRect();
    return box.right > root.right + 1 || box.left < root.left - 1;
}).map((n) => n.className || n.tagName)"""

CONTRAST = """() => {
    const paint = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgb = (colour, under) => {
        paint.fillStyle = `rgb(${under.join(',')})`; paint.fillRect(0, 0, 1, 1);
        paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
        return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const back = (n) => n ? rgb(getComputedStyle(n).backgroundColor, back(n.parentElement)) : [255, 255, 255];
    const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const light = (c) => c.map((v) => linear(v / 255))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const bad = [];
    for (const n of document.querySelectorAll('.wb-browser *')) {
        const own = [...n.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
        if (!own || !n.getClientRects().length) continue;
        const under = back(n), over = rgb(getComputedStyle(n).color, under);
        const [a, b] = [light(under), light(over)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) bad.push([n.className || n.tagName, n.textContent.slice(0, 20), ratio.toFixed(2)]);
    }
    return bad;
}"""
