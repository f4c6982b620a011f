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
    const bodies = [...table.tBodies].map((body, order) => {
      const [, name, ...cells] = [...body.rows[0].cells].map((cell) => cell.textContent.trim());
      const verdicts = [...body.rows[0].cells[0].querySelectorAll(".v")].map((word) => word.textContent);
      const sortable = {order, name, CPU: number(cells[0]), GPU: number(cells[1]), speedup: number(cells[2])};
      return {body, sortable, text: name.toLowerCase(), verdicts};
    });
    const filter = document.getElementById("filter");
    const verdict = document.getElementById("verdict");
    const shown = document.getElementById("shown");

    const apply = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const {body, text, verdicts} of bodies) {
        const visible = (!verdict.value || verdicts.includes(verdict.value)) && words.every((word) => text.includes(word));
        body.hidden = !visible;
        count += visible;
      }
      shown.textContent = `${count} of ${bodies.length} tests`;
    };
    for (const name of new Set(bodies.flatMap((each) => each.verdicts))) verdict.add(new Option(name));
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
      const compare = (left, right) => {
        const [a, b] = [left.sortable[key], right.sortable[key]];
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
