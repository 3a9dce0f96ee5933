// The static pages of widgets and tables have colours for a dark screen: let them follow the site's own theme instead.
(() => {
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
