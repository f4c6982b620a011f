"use strict";
// Filters and sorts the table of tests; the page is whole without it.
{
  const table = document.getElementById("table");
  if (table) {
    const units = {ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, "%": 1};
    const number = (text) => {
      const [, digits, unit] = /^\D*?([+-]?[\d.]+(?:e[+-]?\d+)?)(?: (\S+))?/.exec(text) ?? [];
      return Number(digits) * (units[unit] ?? 1);
    };
    // What a row says is read when it is needed: a page of thousands opens before.
    const said = (body, key) => {
      const row = body.rows[0];
      return (key === "name" ? row.cells[1] : row.querySelector(`.${key}`)).textContent.trim();
    };
    const verdictsOf = (body) => [...body.querySelectorAll("td:first-child > .v")].map((word) => word.textContent);
    const bodies = [...table.tBodies];
    const tests = [];
    let isFailure = false;
    for (const body of bodies) {
      if (body.matches(".test")) tests.push({body, isFailure});
      else isFailure = !body.matches(".file");
    }
    const [filter, verdict, sort, shown] = ["filter", "verdict", "sort", "shown"].map((id) => document.getElementById(id));

    const apply = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const each of tests) {
        const has = (word) => (each.text ??= said(each.body, "name").toLowerCase()).includes(word);
        const wanted = verdict.value === "Failures" ? each.isFailure : !verdict.value || verdictsOf(each.body).includes(verdict.value);
        const visible = wanted && words.every(has);
        each.body.hidden = !visible;
        count += visible;
      }
      let group;
      for (const body of bodies) {
        if (body.matches(".group")) (group = body).hidden = true;
        else if (!body.hidden) group.hidden = false;
      }
      shown.textContent = `${count} of ${tests.length} tests`;
    };
    if (tests.some((each) => each.isFailure)) verdict.add(new Option("Failures")); // the group: failed, error and regressed
    for (const name of new Set(tests.flatMap(({body}) => verdictsOf(body)))) verdict.add(new Option(name));
    filter.addEventListener("input", apply);
    verdict.addEventListener("input", apply);

    const headings = [...table.tHead.rows[0].cells].filter((heading) => "key" in heading.dataset);
    const sortBy = (key, sign) => {
      for (const heading of headings) {
        if (key && heading.dataset.key === key) heading.ariaSort = sign > 0 ? "ascending" : "descending";
        else heading.removeAttribute("aria-sort");
      }
      sort.value = `${key} ${sign}`;
      table.classList.toggle("sorted", Boolean(key));
      const value = key === "name" ? String : number;
      for (const each of key ? tests : []) each[key] ??= value(said(each.body, key));
      const compare = (left, right) => {
        const [a, b] = [left[key], right[key]];
        if (typeof a === "string") return sign * a.localeCompare(b, undefined, {numeric: true});
        // What was not measured stays last either way.
        return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : sign * (a - b);
      };
      table.append(...(key ? [...tests].sort(compare).map(({body}) => body) : bodies));
    };
    for (const heading of headings) {
      const {key} = heading.dataset, name = heading.textContent;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => sortBy(key, heading.ariaSort === "ascending" ? -1 : 1));
      heading.replaceChildren(button);
      for (const [sign, arrow] of key ? [[1, " ↑"], [-1, " ↓"]] : [[1, ""]]) sort.add(new Option(name + arrow, `${key} ${sign}`));
    }
    sort.addEventListener("input", () => {
      const [key, sign] = sort.value.split(" ");
      sortBy(key, Number(sign));
    });
    const controls = document.getElementById("controls");
    controls.addEventListener("submit", (event) => event.preventDefault());
    controls.hidden = false;
    apply();
  }
}
