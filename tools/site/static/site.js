// Buttons that copy commands, and excerpts of search results.
const copyText = async (text) => {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
};

// commandsOf returns the commands of a transcript without prompts and output, or the unchanged text of any other block.
const commandsOf = (text) => {
  if (!/^\$ /m.test(text)) return text;
  let inside = false;
  return text.split("\n").filter((line) => {
    const taken = inside || line.startsWith("$ ");
    inside = taken && line.endsWith("\\");
    return taken;
  }).map((line) => line.replace(/^\$ /, "")).join("\n") + "\n";
};

document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("div.highlight")) {
    const pre = box.querySelector("pre"), button = document.createElement("button"), text = commandsOf(pre.textContent);
    pre.tabIndex = 0; // focusable, because it may scroll
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.dataset.text = text;
    button.addEventListener("click", async () => {
      await copyText(text);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    box.append(button);
  }
  for (const table of document.querySelectorAll(".table-wrapper")) table.tabIndex = 0;
  for (const th of document.querySelectorAll("th.head")) if (!th.textContent.trim()) th.replaceWith(document.createElement("td"));
  for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.setAttribute("aria-level", "2"); // the theme does not set a level
  document.querySelectorAll("aside").forEach((aside) => { aside.setAttribute("aria-label", aside.classList.contains("toc-drawer") ? "On this page" : "Pages"); });
});

// One script has the texts of all pages, because a page that is opened from disk cannot read other files.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
const addExcerpts = () => {
  const words = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/\s+/).filter((w) => w);
  for (const a of document.querySelectorAll("#search-results li > a:first-of-type")) {
    if (a.parentNode.querySelector(".excerpt")) continue;
    const text = searchTexts[a.getAttribute("href").replace(/[?#].*$/, "")] || "", low = text.toLowerCase();
    const at = [words.join(" "), ...words].map((w) => low.indexOf(w)).find((i) => i >= 0) ?? 0, from = at < 90 ? 0 : low.indexOf(" ", at - 90) + 1;
    const p = document.createElement("p");
    p.className = "excerpt";
    const part = text.slice(from, from + 240).replace(/\s\S*$/, ""), marks = words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
    p.append(from ? "… " : "");
    for (const piece of marks ? part.split(new RegExp(`(${marks})`, "i")) : [part]) {
      const is = words.includes(piece.toLowerCase()), e = is ? document.createElement("mark") : document.createTextNode(piece);
      if (is) e.textContent = piece;
      p.append(e);
    }
    p.append(" …");
    a.after(p);
  }
};
if (/\/search\.html$/.test(location.pathname)) {
  document.addEventListener("DOMContentLoaded", () => {
    const title = document.createElement("h1");
    title.textContent = "Search";
    document.getElementById("search-results").before(title);
  });
  const script = document.createElement("script");
  script.src = "searchtexts.js";
  script.onload = () => {
    new MutationObserver(addExcerpts).observe(document.getElementById("search-results"), { childList: true, subtree: true });
    addExcerpts();
  };
  document.head.append(script);
}
