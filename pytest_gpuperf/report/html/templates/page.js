"use strict";
// Filters and sorts the table of tests; the page is whole without it.
{
  const table = document.getElementById("table");
  if (table) {
    const units = {ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1};
    const number = (text) => {
      const [, digits, unit] = /^([\d.e+-]+)(?: (\w+))?/.exec(text) ?? [];
      return Number(digits) * (units[unit] ?? 1);
    };
    // What a row says is read when it is needed: a page of thousands opens before.
    const cell = (body, index) => body.firstElementChild.children[index];
    const said = (body, index) => cell(body, index).textContent.trim();
    const verdictsOf = (element) => [...element.querySelectorAll(".v")].map((word) => word.textContent);
    const keys = {
      order: ({order}) => order,
      name: ({body}) => said(body, 1),
      CPU: ({body}) => number(said(body, 2)),
      GPU: ({body}) => number(said(body, 3)),
      speedup: ({body}) => number(said(body, 4)),
    };
    const bodies = [...table.tBodies].map((body, order) => ({body, order}));
    const filter = document.getElementById("filter");
    const verdict = document.getElementById("verdict");
    const shown = document.getElementById("shown");

    const apply = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const each of bodies) {
        const isOfVerdict = () => verdictsOf(cell(each.body, 0)).includes(verdict.value);
        const has = (word) => (each.text ??= said(each.body, 1).toLowerCase()).includes(word);
        const visible = (!verdict.value || isOfVerdict()) && words.every(has);
        each.body.hidden = !visible;
        count += visible;
      }
      shown.textContent = `${count} of ${bodies.length} tests`;
    };
    for (const name of new Set(bodies.flatMap(({body}) => verdictsOf(cell(body, 0))))) verdict.add(new Option(name));
    filter.addEventListener("input", apply);
    verdict.addEventListener("input", apply);
    document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
    document.getElementById("controls").hidden = false;
    apply();

    const sort = (heading, key) => {
      const descending = heading.ariaSort === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.ariaSort = descending ? "descending" : "ascending";
      const sign = descending ? -1 : 1;
      for (const each of bodies) each[key] ??= keys[key](each);
      const compare = (left, right) => {
        const [a, b] = [left[key], right[key]];
        if (typeof a === "string") return sign * a.localeCompare(b, undefined, {numeric: true});
        // What was not measured stays last either way.
        return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : sign * (a - b);
      };
      table.append(...[...bodies].sort(compare).map(({body}) => body));
    };
    for (const heading of table.tHead.rows[0].cells) {
      const key = heading.dataset.key;
      if (!key) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      button.addEventListener("click", () => sort(heading, key));
      heading.replaceChildren(button);
    }
  }
}
