// What the theme does not do: names for the buttons of the navigation, and views of widgets in the colours of the site.
(() => {
  for (const toggle of document.querySelectorAll("summary:has(> .toctree-toggle)")) {
    const title = toggle.closest("li")?.querySelector("a")?.textContent.trim();
    toggle.setAttribute("aria-label", `Pages of ${title}`);
  }
  // their static pages follow the screen's theme; the site has one of its own
  const html = document.documentElement;
  const rules = [...document.querySelectorAll(".wb-view")]
    .flatMap((view) => [...(view.shadowRoot?.styleSheets ?? [])])
    .flatMap((sheet) => [...sheet.cssRules])
    .filter((rule) => rule.media?.mediaText.includes("prefers-color-scheme"));
  const follow = () => {
    for (const rule of rules) rule.media.mediaText = html.dataset.theme === "dark" ? "all" : "not all";
  };
  new MutationObserver(follow).observe(html, { attributes: true, attributeFilter: ["data-theme"] });
  follow();
})();
