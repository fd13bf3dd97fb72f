"use strict";
(function () {
  const form = document.getElementById("filter");
  const box = document.getElementById("words");
  const kinds = Array.from(form.querySelectorAll("input[type=checkbox]"));
  const count = document.getElementById("count");
  const items = Array.from(document.querySelectorAll(".item"), (e) => ({ e, text: null }));
  const sections = Array.from(document.querySelectorAll("section"));
  const by = document.getElementById("by");
  const findings = sections.map((s) => [s, Array.from(s.querySelectorAll("[data-rule]"))]).filter(([, found]) => found.length);
  function apply() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const off = kinds.filter((k) => !k.checked).map((k) => k.value);
    let shown = 0;
    for (const item of items) {
      if (words.length && item.text === null) item.text = item.e.textContent.toLowerCase();
      const gone = off.some((k) => item.e.classList.contains(k));
      const hit = words.every((w) => (w.length > 1 && w[0] === "!" ? !item.text.includes(w.slice(1)) : item.text.includes(w)));
      item.e.hidden = gone || !hit;
      if (!item.e.hidden) shown++;
    }
    for (const s of sections) {
      const all = s.querySelectorAll(".item");
      s.hidden = all.length > 0 && Array.prototype.every.call(all, (e) => e.hidden);
    }
    for (const set of document.querySelectorAll(".set")) {
      set.hidden = Array.prototype.every.call(set.querySelectorAll(".item"), (e) => e.hidden);
      if (words.length && !set.hidden) set.open = true;
    }
    count.textContent = shown + " of " + items.length + " entries shown";
  }
  // group puts the findings of each section into sets, of which the first 20 are open.
  function group() {
    for (const [section, found] of findings) {
      const old = section.querySelectorAll(":scope > .set");
      const sets = new Map();
      for (const e of found) {
        const name = e.dataset[by.value] || "no unit";
        if (!sets.has(name)) sets.set(name, []);
        sets.get(name).push(e);
      }
      section.querySelector("h2").after(...(by.value ? Array.from(sets, set) : found));
      for (const e of old) e.remove();
    }
  }
  function set([name, all], i) {
    const details = document.createElement("details"), summary = document.createElement("summary"), code = document.createElement("code");
    details.className = "set";
    details.open = i < 20;
    code.textContent = name;
    summary.append(code, " " + all.length);
    details.append(summary, ...all);
    return details;
  }
  let timer = 0;
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, 120); });
  if (by) by.addEventListener("change", group);
  if (by && by.value) group(); // browsers restore forms
  form.addEventListener("change", apply);
  form.addEventListener("submit", (e) => { e.preventDefault(); apply(); });
  form.hidden = false;
  apply();
})();
