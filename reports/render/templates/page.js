(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const tools = document.querySelector(".tools");
  const query = document.getElementById("q");
  const status = document.getElementById("shown");
  const toggle = document.getElementById("toggle");
  const buttons = all("button[data-key]", tools);
  const claims = all(".claim").map((row) => ({ row, text: row.textContent.toLowerCase(), keys: row.dataset.keys.split(" ") }));
  let key = "";

  const apply = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, text, keys } of claims) {
      row.hidden = !((!key || keys.includes(key)) && words.every((word) => text.includes(word)));
      shown += row.hidden ? 0 : 1;
    }
    for (const part of all("section.group")) part.hidden = !part.querySelector(".claim:not([hidden])");
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.key === key));
    status.textContent = shown ? status.dataset.some.replace("{shown}", shown) : status.dataset.none;
  };
  const choose = (next) => { key = next; apply(); };
  const reset = () => { query.value = ""; choose(""); };
  const openTarget = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.classList.contains("claim")) return;
    if (target.hidden) reset();
    target.open = true;
    target.scrollIntoView();
  };

  tools.hidden = false;
  query.addEventListener("input", apply);
  for (const button of buttons) button.addEventListener("click", () => choose(button.dataset.key));
  for (const link of all("a[data-key]")) link.addEventListener("click", () => { query.value = ""; choose(link.dataset.key); });
  toggle.addEventListener("click", () => {
    const open = toggle.getAttribute("aria-pressed") !== "true";
    for (const { row } of claims) if (!row.hidden) row.open = open;
    toggle.setAttribute("aria-pressed", String(open));
    toggle.textContent = open ? toggle.dataset.close : toggle.dataset.open;
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea");
    if (event.key === "/" && !typing) { event.preventDefault(); query.focus(); }
    if (event.key === "Escape" && (typing || key)) reset();
  });
  addEventListener("hashchange", openTarget);
  apply();
  openTarget();
})();
