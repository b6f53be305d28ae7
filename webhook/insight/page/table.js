// A table of any number of rows, of which one page is in the document. Sorting and filtering work on arrays.

const PAGE = 50;
const PRINTED = 100;
const tables = new Map();  // the order and the page of each table, kept while the report is replaced

// columns(): [{ key, label, number, value(row), cell(row), first }]; `value` is what is sorted by, `cell` what is shown.
// first: which order the first press of the header gives. rows(): the rows now. href(row) makes a row lead to a view.
class Table {
  constructor({ id, caption, columns, rows, sort, desc = true, href, open, empty = "Nothing to show.", chosen }) {
    Object.assign(this, { id, caption, rows, href, open, empty, chosen });
    this.columnsNow = columns;
    this.columns = columns();
    this.order = tables.get(id) ?? { sort, desc, page: 0 };
    tables.set(id, this.order);
    this.head = el("thead");
    this.body = el("tbody");
    this.table = el("table", { class: "sortable" }, el("caption", { class: "visually-hidden" }, caption), this.head, this.body);
    this.pager = el("div", { class: "pager" });
    this.node = el("div", { class: "table", id },
      el("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" }, this.table), this.pager);
    this.body.addEventListener("keydown", (event) => this.turn(event));
    this.update();
    roving(this.body, "[data-row]");
  }

  sorted() {
    const { sort, desc } = this.order;
    const column = this.columns.find((one) => one.key === sort);
    const rows = this.rows();
    if (!column) return rows;
    const sign = desc ? -1 : 1;
    const keyed = rows.map((row) => [column.value(row), row]);
    const missing = (value) => value === null || value === undefined || value === "" || Number.isNaN(value);
    const words = typeof keyed.find(([value]) => !missing(value))?.[0] === "string";
    keyed.sort(([a], [b]) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b);
      return sign * (words ? (a < b ? -1 : a > b ? 1 : 0) : a - b);
    });
    return keyed.map(([, row]) => row);
  }

  update({ all = false } = {}) {
    this.columns = this.columnsNow();  // their units may have changed
    const rows = this.sorted();
    const size = all ? PRINTED : PAGE;
    const pages = Math.max(1, Math.ceil(rows.length / size));
    this.pages = pages;
    this.order.page = Math.min(this.order.page, pages - 1);
    const from = all ? 0 : this.order.page * size;
    const shown = rows.slice(from, from + size);
    this.head.replaceChildren(el("tr", {}, this.columns.map((column) => this.header(column))));
    this.body.replaceChildren(...(shown.length ? shown.map((row) => this.row(row)) : [el("tr", {}, el("td", { colspan: this.columns.length, class: "empty" }, this.empty))]));
    const first = this.body.querySelector("[data-row]");
    for (const one of this.body.querySelectorAll("[data-row]")) one.tabIndex = one === first ? 0 : -1;
    this.pager.replaceChildren(...this.pages_of(rows.length, from, shown.length, pages));
  }

  header(column) {
    const { sort, desc } = this.order;
    const current = sort === column.key;
    const button = el("button", {
      type: "button", "data-keep": `sort ${this.id} ${column.key}`, title: column.title,
      onclick: () => {
        const first = column.first ?? (column.number ? "descending" : "ascending");
        this.order.desc = current ? !desc : first === "descending";
        this.order.sort = column.key;
        this.order.page = 0;
        keepingFocus(() => this.update());
      },
    }, column.label, el("span", { class: "arrow", "aria-hidden": "true" }, current ? (desc ? "▼" : "▲") : ""));
    const aria = current ? (desc ? "descending" : "ascending") : "none";
    return el("th", { scope: "col", "aria-sort": aria, class: column.number ? "number" : null }, button);
  }

  row(row) {
    const chosen = this.chosen?.(row);
    return el("tr", { class: chosen ? "chosen" : null }, this.columns.map((column, at) => {
      const content = column.cell ? column.cell(row) : column.value(row);
      if (at > 0) return el("td", { class: column.number ? "number" : column.class }, content ?? "–");
      const keep = `row ${this.id} ${row.uid ?? row.pod ?? row.name}`;
      const inner = this.href
        ? el("a", { href: this.href(row), "data-row": true, "data-keep": keep }, content)
        : this.open
          ? el("button", { type: "button", class: "plain", "data-row": true, "data-keep": keep, "aria-pressed": String(Boolean(chosen)), onclick: () => this.open(row) }, content)
          : content;
      return el("th", { scope: "row" }, inner);
    }));
  }

  pages_of(rows, from, shown, pages) {
    const text = rows ? `${count(from + 1)}–${count(from + shown)} of ${count(rows)}` : "0";
    const status = el("span", { role: "status" }, text);
    if (pages < 2) return rows > 10 ? [status] : [];
    const button = (label, to, words) => el("button", {
      type: "button", "aria-label": words, title: words, disabled: to < 0 || to >= pages || to === this.order.page, "data-keep": `page ${this.id} ${words}`,
      onclick: () => this.go(to),
    }, label);
    const at = this.order.page;
    return [status, button("«", 0, "First page"), button("‹", at - 1, "Page before"), button("›", at + 1, "Next page"), button("»", pages - 1, "Last page")];
  }

  go(page) {
    if (page < 0 || page >= this.pages) return;
    this.order.page = page;
    keepingFocus(() => this.update());
    this.node.querySelector(".scroll").scrollTop = 0;
  }

  turn(event) {
    const by = { PageDown: 1, PageUp: -1 }[event.key];
    if (!by || this.order.page + by < 0 || this.order.page + by >= this.pages) return;
    event.preventDefault();
    this.go(this.order.page + by);
    this.body.querySelector("[data-row]")?.focus();
  }
}

// Do something that replaces elements, and give the focus to the new one that stands for the old one.
function keepingFocus(work) {
  const key = document.activeElement?.dataset?.keep ?? document.activeElement?.id;
  work();
  if (!key || document.activeElement !== document.body) return;
  const again = byId(key) ?? [...document.querySelectorAll("[data-keep]")].find((one) => one.dataset.keep === key && !one.disabled);
  again?.focus({ preventScroll: true });
}
