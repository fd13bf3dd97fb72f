"use strict";
(function () {
  const form = document.getElementById("filter");
  const box = document.getElementById("words");
  const kinds = Array.from(form.querySelectorAll("input[type=checkbox]"));
  const count = document.getElementById("count");
  const items = Array.from(document.querySelectorAll(".item"), (e) => ({ e, text: null }));
  const sections = Array.from(document.querySelectorAll("section"));
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
    for (const h of document.querySelectorAll("h3")) {
      let any = false;
      for (let e = h.nextElementSibling; e && e.tagName !== "H3"; e = e.nextElementSibling) any = any || !e.hidden;
      h.hidden = !any;
    }
    count.textContent = shown + " of " + items.length + " entries shown";
  }
  let timer = 0;
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, 120); });
  form.addEventListener("change", apply);
  form.addEventListener("submit", (e) => { e.preventDefault(); apply(); });
  form.hidden = false;
  apply();
})();
