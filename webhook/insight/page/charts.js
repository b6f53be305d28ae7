// Charts: stacked bars over time, and parts of a whole. Each has a table with the same numbers.

// series: [{ key, label, values }], one value for each of `starts`. format: a value as text, with its unit. whole: values are numbers of things.
const cursors = new Map();  // the bar that is read in each chart, kept while the report is replaced

function barsOverTime({ id, title, note, starts, width, series, format, whole = false }) {
  const totals = starts.map((_, at) => series.reduce((all, one) => all + one.values[at], 0));
  const shown = series.filter((one) => one.values.some((value) => value > 0));
  const head = el("figcaption", {}, el("h3", { id: `${id}-title` }, title), el("p", { class: "note" }, `${note}; each bar is ${duration(width)}`));
  const figure = el("figure", { class: "card chart", id, "aria-labelledby": `${id}-title` }, head);
  if (!shown.length) {
    figure.append(el("p", { class: "empty" }, "Nothing to show for this time."));
    return figure;
  }
  const sums = new Map(series.map((one) => [one.key, one.values.reduce((all, value) => all + value, 0)]));
  figure.append(legend(shown.map((one) => ({ ...one, text: format(sums.get(one.key)) }))));
  const readout = el("p", { class: "readout", id: `${id}-readout`, "aria-live": "polite" });
  const box = el("div", { class: "plot" });
  figure.append(box, readout, asTable({ title, starts, series: shown, format }));
  let current = cursors.get(id) ?? -1;
  const draw = () => {
    const across = Math.max(300, Math.round(box.clientWidth || 640));
    const high = 190, left = 58, bottom = 22, top = 8;
    const marks = valueMarks(Math.max(...totals), { whole });
    const highest = marks.at(-1);
    const y = (value) => top + (high - top - bottom) * (1 - value / highest);
    const step = (across - left - 4) / starts.length;
    const x = (at) => left + at * step;
    const from = starts[0], to = starts.at(-1) + width;
    const plot = svg("svg", {
      viewBox: `0 0 ${across} ${high}`, role: "img", tabindex: "0", "data-keep": `plot ${id}`, "aria-describedby": `${id}-readout`,
      "aria-label": `${title}: bars from ${time(from)} to ${time(to)}, ${plural(starts.length, "part")} of ${duration(width)}. `
        + `${shown.map((one) => `${one.label} ${format(sums.get(one.key))}`).join(", ")}. Arrow keys read each bar.`,
    });
    for (const mark of marks) {
      plot.append(svg("line", { class: mark ? "grid" : "base", x1: left, x2: across, y1: y(mark), y2: y(mark) }));
      plot.append(svg("text", { class: "mark", x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, format(mark, true)));
    }
    const place = (at) => left + ((at - from) / (to - from)) * (across - left - 4);
    for (const mark of timeMarks(from, to, Math.max(3, Math.floor(across / 80)))) {
      const anchor = place(mark.at) > across - 24 ? "end" : "middle";
      plot.append(svg("text", { class: "mark", x: Math.min(across, place(mark.at)), y: high - 6, "text-anchor": anchor }, mark.label));
    }
    const bars = starts.map((_, at) => {
      let base = 0;
      const bar = svg("g", { class: "bar" }, svg("rect", { class: "behind", x: x(at), y: top, width: step, height: high - top - bottom }));
      for (const one of shown) {
        const value = one.values[at];
        if (value > 0) {
          const height = Math.max(0.5, y(base) - y(base + value));
          bar.append(svg("rect", { class: `c-${one.key}`, x: x(at) + step * 0.08, y: y(base + value), width: Math.max(1, step * 0.84), height }));
        }
        base += value;
      }
      return bar;
    });
    plot.append(...bars);
    const read = (at) => {
      bars[current]?.classList.remove("current");
      current = at;
      cursors.set(id, at);
      bars[at]?.classList.add("current");
      readout.textContent = at < 0 ? "" : `${time(starts[at])} – ${time(starts[at] + width, { date: false })}: `
        + (shown.filter((one) => one.values[at] > 0).map((one) => `${one.label} ${format(one.values[at])}`).join(" · ") || "nothing");
    };
    if (current >= 0) read(Math.min(current, starts.length - 1));
    plot.addEventListener("pointermove", (event) => {
      const area = plot.getBoundingClientRect();
      const at = Math.floor((((event.clientX - area.left) / area.width) * across - left) / step);
      read(at >= 0 && at < starts.length ? at : -1);
    });
    plot.addEventListener("pointerleave", () => read(-1));
    plot.addEventListener("keydown", (event) => {
      const last = starts.length - 1;
      const to = { ArrowRight: Math.min(last, current + 1), ArrowLeft: Math.max(0, current - 1), Home: 0, End: last, Escape: -1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      read(to);
    });
    box.replaceChildren(plot);
  };
  draw();
  whenResized(box, draw);
  return figure;
}

function whenResized(box, draw) {
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (box.clientWidth && Math.abs(box.clientWidth - width) > 4) {
      width = box.clientWidth;
      const had = box.contains(document.activeElement);
      draw();
      if (had) box.firstElementChild.focus();
    }
  }).observe(box);
}

function legend(parts) {
  return el("ul", { class: "legend" }, parts.map((one) =>
    el("li", {}, el("span", { class: `swatch c-${one.key}`, "aria-hidden": "true" }), one.label, one.text && el("b", {}, one.text))));
}

function asTable({ title, starts, series, format }) {
  const table = el("table", {},
    el("caption", { class: "visually-hidden" }, title),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "From (UTC)"), series.map((one) => el("th", { scope: "col", class: "number" }, one.label)))));
  const details = el("details", { class: "as-table" }, el("summary", {}, "The numbers as a table", hidden(`: ${title}`)));
  const body = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, as a table` }, table);
  details.append(body);
  const complete = () => {
    if (table.tBodies.length) return;
    table.append(el("tbody", {}, starts.map((start, at) =>
      el("tr", {}, el("th", { scope: "row" }, time(start)), series.map((one) => el("td", { class: "number" }, format(one.values[at])))))));
  };
  details.addEventListener("toggle", complete);
  details.complete = complete;
  return details;
}

// Parts of a whole as one bar. parts: [{ key, label, value, text }]
function partsBar(parts, { whole } = {}) {
  const all = whole ?? parts.reduce((sum, one) => sum + one.value, 0);
  const words = parts.filter((one) => one.value > 0).map((one) => `${one.label} ${one.text}`).join(", ");
  return el("span", { class: "parts", role: "img", "aria-label": words || "none", title: words },
    all > 0 && parts.filter((one) => one.value > 0).map((one) =>
      el("span", { class: `c-${one.key}`, style: { width: `${(100 * one.value) / all}%` } })));
}

const lossParts = (figures, measure) => Object.entries(LOSSES).map(([key, { label }]) => {
  const value = measure.of(figures.lostTo[key]) ?? 0;
  return { key, label, value, text: measure.format(value) };
}).filter((part) => part.value > 0);
