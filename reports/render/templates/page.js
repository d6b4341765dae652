// Search, filters, cards, language and theme. Everything shown was rendered and escaped before; this puts it in place.
(() => {
  "use strict";
  const packs = JSON.parse(document.getElementById("packs").textContent);
  const host = document.getElementById("page");
  const pages = { [packs.langs[0]]: { title: document.title, html: host.innerHTML } };
  const SELECTS = ["section", "verdict", "warrant", "drift"];
  const all = (selector, root = host) => [...root.querySelectorAll(selector)];
  const at = (id) => document.getElementById(id);
  const cards = []; // of each section: a promise of its cards, then the cards
  let lang = packs.langs[0], rows = [];

  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  const load = (section) => (cards[section] ??= unpack(packs.cards[section]).then((found) => (cards[section] = found)));

  // State stands in the address, as far as a file's address can be written.
  const remember = (name, value) => { try { localStorage.setItem(`errata-${name}`, value); } catch { /* not kept */ } };
  const recall = (name) => { try { return localStorage.getItem(`errata-${name}`); } catch { return null; } };
  const state = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const save = () => {
    const told = new URLSearchParams(lang === packs.langs[0] ? [] : [["lang", lang]]);
    for (const name of ["q", ...SELECTS]) if (at(name)?.value) told.set(name, at(name).value);
    try { history.replaceState(null, "", told.size ? `#${told}` : location.pathname + location.search); } catch { /* not kept */ }
  };

  // A card holds both languages, as words.py marks them.
  const swap = { ".": ",", ",": "." };
  const spoken = (html) => html
    .replace(/\ue000([^\ue000]*?)\ue001([^\ue000]*?)\ue002/gs, lang === "id" ? "$2" : "$1")
    .replace(/\ue003(-?[\d.,]+)/g, (_, number) => (lang === "id" ? number.replace(/[.,]/g, (mark) => swap[mark]) : number));

  // A letter for each night, "a" the lowest; "-" is a gap. See sparkline.py.
  const draw = (svg) => {
    const course = [...svg.dataset.course], x = (night) => 3 + (174 * night) / Math.max(course.length - 1, 1);
    const add = (d, name) => {
      const path = document.createElementNS(svg.namespaceURI, "path");
      path.setAttribute("d", d);
      path.setAttribute("class", name);
      svg.append(path);
    };
    for (const night of svg.dataset.changes.split(" ").filter(Boolean)) add(`M${x(+night)} 0V28`, "change");
    const y = (letter) => 25 - (letter.charCodeAt(0) - 97);
    const points = course.map((letter, night) => (letter === "-" ? "" : `${course[night - 1] ?? "-"}` === "-" ? `M${x(night)} ${y(letter)}h0.01` : `L${x(night)} ${y(letter)}`));
    add(points.join(""), "line");
  };

  const fill = (row) => {
    const body = row.element.querySelector(".body");
    const put = (found) => {
      if (body.dataset.lang === lang || !row.element.isConnected) return;
      body.innerHTML = spoken(found[row.place]);
      body.dataset.lang = lang;
      for (const wide of all(".wide", body)) hint(wide);
      for (const svg of all("[data-course]", body)) draw(svg);
    };
    const found = cards[row.section];
    return Array.isArray(found) ? put(found) : load(row.section).then(put).catch(() => { body.textContent = at("shown").dataset.old; });
  };
  const hint = (wide) => {
    if (wide.scrollWidth <= wide.clientWidth) return;
    const note = document.createElement("p");
    note.className = "axis hint";
    note.textContent = at("shown").dataset.scrolls;
    wide.before(note);
  };

  const apply = () => {
    const words = at("q").value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = SELECTS.map((name) => [name, at(name)?.value]).filter(([, value]) => value);
    let shown = 0;
    for (const row of rows) {
      const fits = chosen.every(([name, value]) => row[name === "section" ? "group" : name].includes(value));
      row.element.hidden = !(fits && words.every((word) => row.text.includes(word)));
      shown += row.element.hidden ? 0 : 1;
    }
    for (const part of all("section.group")) part.hidden = !part.querySelector(".claim:not([hidden])");
    const status = at("shown");
    status.textContent = shown ? status.dataset.some.replace("{shown}", shown) : status.dataset.none;
  };
  const set = (values) => {
    for (const name of ["q", ...SELECTS]) {
      const field = at(name), value = values.get(name) ?? "";
      if (field) field.value = field.tagName === "INPUT" || [...field.options].some((o) => o.value === value) ? value : "";
    }
    apply();
  };
  const clear = () => { set(new URLSearchParams()); save(); };
  const openTarget = () => {
    if (location.hash.includes("=")) return set(state());
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* as it is */ }
    const target = at(name);
    if (!target?.classList.contains("claim")) return;
    if (target.hidden) set(new URLSearchParams());
    target.open = true;
    target.scrollIntoView();
  };

  // After each change of language the elements are new: find them, and listen.
  const bind = () => {
    rows = all("section.group").flatMap((group, section) => all(".claim", group).map((element, place) => ({
      element, section, place, text: element.textContent.toLowerCase(), group: [group.dataset.section],
      verdict: element.dataset.keys.split(" "), warrant: [element.dataset.warrant], drift: element.dataset.drift.split(" "),
    })));
    for (const row of rows) row.element.addEventListener("toggle", () => { if (row.element.open) fill(row); });
    for (const part of all(".tools, .switches")) part.hidden = false;
    at("q").addEventListener("input", () => { apply(); save(); });
    for (const name of SELECTS) at(name)?.addEventListener("change", () => { apply(); save(); });
    for (const link of all("a[data-key], a[data-drift]")) link.addEventListener("click", (event) => {
      event.preventDefault();
      set(new URLSearchParams(link.dataset.key ? { verdict: link.dataset.key } : { drift: link.dataset.drift }));
      save();
      at("claims").scrollIntoView();
      at("claims").focus({ preventScroll: true });
    });
    at("clear").addEventListener("click", clear);
    at("toggle").addEventListener("click", ({ currentTarget: toggle }) => {
      const open = toggle.getAttribute("aria-pressed") !== "true";
      for (const { element } of rows) if (!element.hidden) element.open = open;
      toggle.setAttribute("aria-pressed", String(open));
      toggle.textContent = open ? toggle.dataset.close : toggle.dataset.open;
    });
    at("lang").addEventListener("click", ({ currentTarget }) => speak(currentTarget.dataset.lang, true));
    at("theme").addEventListener("click", () => paint(dark() ? "light" : "dark", true));
    apply();
  };
  const speak = async (next, asked) => {
    if (!packs.langs.includes(next) || next === lang) return;
    try { Object.assign(pages, pages[next] ? {} : await unpack(packs.pages)); } catch { return; }
    const kept = new URLSearchParams(["q", ...SELECTS].map((name) => [name, at(name)?.value ?? ""]));
    const open = rows.filter((row) => row.element.open).map((row) => row.element.id);
    lang = next;
    host.innerHTML = pages[next].html;
    document.title = pages[next].title;
    document.documentElement.lang = next;
    bind();
    set(kept);
    for (const row of rows) if (open.includes(row.element.id)) row.element.open = true;
    if (asked) { remember("lang", next); save(); at("lang").focus(); }
  };
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const paint = (theme, asked) => {
    if (!["light", "dark"].includes(theme)) return;
    document.documentElement.dataset.theme = theme;
    if (asked) remember("theme", theme);
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea, select");
    if (event.key === "/" && !typing) { event.preventDefault(); at("q").focus(); }
    if (event.key === "Escape") clear();
  });
  addEventListener("hashchange", openTarget);
  addEventListener("beforeprint", () => { for (const row of rows) if (row.element.open) fill(row); });
  paint(recall("theme"));
  bind();
  (async () => {
    await speak(state().get("lang") ?? recall("lang"));
    openTarget();
    document.documentElement.dataset.ready = "yes";
    // Opening a card, and printing, should find its text unpacked.
    for (const section of packs.cards.keys()) await load(section).catch(() => {});
  })();
})();
