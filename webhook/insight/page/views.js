// The views. Each is a section that is drawn when it is first shown, and again when the report or the unit changes.

const state = { report: null, measure: null, params: new URLSearchParams(), chosen: new Map(), back: "#workloads" };
const hash = (view, params = {}) => {
  const text = new URLSearchParams(Object.entries(params).filter(([, value]) => value)).toString();
  return `#${view}${text ? `?${text}` : ""}`;
};
const money = () => state.measure.key === "price";
const show = (one) => {
  const value = state.measure.of(one);
  return value === null ? "–" : state.measure.format(value);
};
const withUnit = (one) => {
  const text = show(one);
  return text === "–" || money() ? text : `${text} ${state.measure.unit}`;
};
const inUnit = (label) => (money() ? label : `${label}, ${state.measure.unit}`);
const share = (row) => {
  const used = state.measure.of(row.used), lost = state.measure.of(row.lost);
  return used && lost !== null ? lost / used : null;
};
const goodput = (row) => {
  const of = state.measure.of, used = of(row.used);
  return used && of(row.lost) !== null ? (used - of(row.lost) + (of(row.kept) ?? 0)) / used : null;
};
const shareCell = (row) => (share(row) === null ? "–" : percent(share(row), 1));
const stateCell = (row) => el("span", { class: `state s-${row.state}`, title: row.reason ? visible(row.reason) : null }, row.state);
const number = (key, label, value, more = {}) => ({ key, label, value, number: true, cell: (row) => (value(row) === null || value(row) === undefined ? "–" : count(value(row))), ...more });
const usageOf = (key, label, of) => ({ key, label: inUnit(label), value: (row) => state.measure.of(of(row)), cell: (row) => show(of(row)), number: true });

// overview

function overview() {
  const { report, measure } = state;
  const { total } = report;
  const other = total.workloads - total.complete - total.failed;
  const ofUsed = (part, words) => (measure.of(total.used) > 0 && measure.of(part) !== null ? `, ${percent(measure.of(part), measure.of(total.used))} ${words}` : "");
  const tiles = el("dl", { class: "tiles" },
    tile("Workloads", count(total.workloads), `${count(total.complete)} complete · ${count(total.failed)} failed · ${count(other)} other`),
    tile("Used", withUnit(total.used), `${plural(total.used.attempts, "attempt")}${ofUsed(total.spot, "on spot nodes")}`),
    tile("Lost", withUnit(total.lost), `${plural(total.lost.attempts, "attempt")}${ofUsed(total.lost, "of what was used")}`,
      partsBar(lossParts(total, measure)), legend(lossParts(total, measure))),
    money() && total.savedOnSpot !== null && total.savedOnSpot !== undefined
      ? tile("Saved on spot nodes", measure.format(total.savedOnSpot), "against the price on-demand")
      : tile("On spot nodes", withUnit(total.spot), `${withUnit(total.onDemand)} on-demand`),
    tile("Goodput", goodput(total) === null ? "–" : percent(goodput(total), 1), "of what was used went into work that counts"),
    tile("Saved on bugs", withUnit(total.savedRetries), "against trying them until no retry is left"));
  const starts = report.series.map((one) => one.start);
  const format = (value, short) => (money() ? measure.format(value).replace(short ? /\.00$/ : "", "") : short ? value.toLocaleString("en", value < 1 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 2 }) : `${amount(value)} ${measure.unit}`);
  const charts = el("div", { class: "charts" },
    barsOverTime({ id: "lost-chart", title: "Lost over time", note: inUnit("By what it was lost to"), starts, width: report.bar, series: lostSeries(), format }),
    barsOverTime({ id: "used-chart", title: "Used over time", note: inUnit("Spot against on-demand"), starts, width: report.bar, format, series: [
      { key: "OnDemand", label: "On-demand", values: valuesOf((one) => one.onDemand) }, { key: "Spot", label: "Spot", values: valuesOf((one) => one.spot) }] }),
    barsOverTime({ id: "causes-chart", title: "Attempts that ended", note: "By how they ended", starts, width: report.bar, whole: true, format: (value) => count(value),
      series: Object.keys(CAUSES).filter((key) => key !== "Capacity" && key !== "Running").map((key) => ({ key, label: CAUSES[key].label, values: report.series.map((one) => one.causes[key] ?? 0) })) }));
  return [el("h2", { class: "only-heard" }, "Overview"), tiles, suspects(), charts, lostMost(), notes()];
}

const valuesOf = (of) => state.report.series.map((one) => state.measure.of(of(one)) ?? 0);

const lostSeries = () => Object.entries(LOSSES).map(([key, { label }]) => ({ key, label, values: valuesOf((one) => one.lostTo[key]) }));

function tile(label, value, note, ...more) {
  return el("div", { class: more.length ? "card tile two" : "card tile" }, el("dt", {}, label), el("dd", {}, valueOf(value), el("span", { class: "note" }, note), more));
}

// A number in large type, and its unit beside it in small type.
function valueOf(text) {
  const [, number, unit] = /^((?:< )?\S+)(?: (.*))?$/s.exec(text);
  return el("span", { class: "value" }, el("b", {}, number), unit && el("span", { class: "note" }, ` ${unit}`));
}

function lostMost() {
  const { report, measure } = state;
  const top = [...report.workloads].sort((a, b) => (measure.of(b.figures.lost) ?? 0) - (measure.of(a.figures.lost) ?? 0)).slice(0, 10);
  const most = measure.of(top[0]?.figures.lost ?? NO_USAGE) ?? 0;
  const rows = top.filter((row) => (measure.of(row.figures.lost) ?? 0) > 0);
  return el("section", { class: "card", "aria-labelledby": "lost-most" }, el("h3", { id: "lost-most" }, "Workloads that lost most"),
    rows.length === 0 ? el("p", { class: "empty" }, "No attempt was lost.") : el("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": "lost-most" }, el("table", { class: "ranked" },
      el("thead", {}, el("tr", {}, ["Workload", "Namespace", inUnit("Lost"), "", "Most often because of"].map((label, at) => el("th", { scope: "col", class: at === 2 ? "number" : at === 3 ? "wide" : null }, label || hidden("To what"))))),
      el("tbody", {}, rows.map((row) => el("tr", {},
        el("th", { scope: "row" }, el("a", { href: hash("workload", { uid: row.uid }), "data-keep": `top ${row.uid}` }, nameOf(row.name))),
        el("td", {}, nameOf(row.namespace, 32)),
        el("td", { class: "number" }, show(row.figures.lost)),
        el("td", { class: "wide" }, partsBar(lossParts(row.figures, measure), { whole: most })),
        el("td", {}, why(row))))))));
}

function why(row) {
  const counts = new Map();
  for (const one of row.attempts) {
    if (!isLost(one)) continue;
    const words = `${CAUSES[causeOf(one)].label}${one.reason ? ` (${one.reason})` : ""}`;
    counts.set(words, (counts.get(words) ?? 0) + 1);
  }
  const [first] = [...counts].sort((a, b) => b[1] - a[1]);
  return first ? nameOf(`${count(first[1])} × ${first[0]}`, 70) : "–";
}

function suspects() {
  const found = [...state.report.nodes, ...state.report.zones].filter((row) => row.suspect);
  const near = state.report.nearLimit.length;
  return el("section", { class: "card", "aria-labelledby": "attention" }, el("h3", { id: "attention" }, "Needs attention"),
    el("ul", { class: "plain-list" },
      found.slice(0, 6).map((row) => el("li", {}, el("a", { href: hash("workloads", state.report.zones.includes(row) ? { zone: row.name } : { node: row.name }) }, nameOf(row.name)),
        `: attempts of ${plural(row.failing, "workload")} failed there that succeeded elsewhere; by chance it would be ${about(row.expected)}`)),
      found.length > 6 && el("li", {}, el("a", { href: "#nodes" }, `${count(found.length - 6)} more`)),
      near > 0 && el("li", {}, el("a", { href: "#limits" }, plural(near, "running workload")), near === 1 ? " has no retry, or no disruption, left" : " have no retry, or no disruption, left"),
      !found.length && !near && el("li", { class: "note" }, "No node or zone fails more than chance explains, and no running workload is at its limit.")));
}

function notes() {
  const { notes: all } = state.report;
  return all.length > 0 && el("section", { class: "card notes", "aria-labelledby": "notes-title" }, el("h3", { id: "notes-title" }, "What these numbers leave out"), el("ul", {}, all.map((one) => el("li", {}, visible(one)))));
}

// tables

function groupTable(id, caption, rows, filter) {
  return new Table({
    id, caption, rows, sort: "lost", href: (row) => hash("workloads", { [filter]: row.name }),
    columns: () => [
      { key: "name", label: caption.replace(/s$/, ""), value: (row) => row.name, cell: (row) => nameOf(row.name) },
      number("workloads", "Workloads", (row) => row.figures.workloads),
      number("failed", "Failed", (row) => row.figures.failed),
      number("attempts", "Attempts", (row) => row.figures.used.attempts),
      usageOf("used", "Used", (row) => row.figures.used),
      { key: "spot", label: "On spot", number: true, value: (row) => (state.measure.of(row.figures.spot) ?? 0) / (state.measure.of(row.figures.used) || 1), cell: (row) => percent(state.measure.of(row.figures.spot) ?? 0, state.measure.of(row.figures.used) ?? 0) },
      usageOf("lost", "Lost", (row) => row.figures.lost),
      { key: "share", label: "Lost of used", number: true, value: (row) => share(row.figures), cell: (row) => shareCell(row.figures) },
      { key: "to", label: "Lost to", class: "wide", value: (row) => (state.measure.of(row.figures.lostTo.Bugs) ?? 0) / (state.measure.of(row.figures.lost) || 1), title: "Sorted by the part lost to bugs", first: "descending", cell: (row) => partsBar(lossParts(row.figures, state.measure)) },
      usageOf("bugs", "Bugs", (row) => row.figures.lostTo.Bugs),
      usageOf("disruptions", "Disruptions", (row) => row.figures.lostTo.Disruptions),
      usageOf("capacity", "No capacity", (row) => row.figures.lostTo.Capacity),
      usageOf("neverStarted", "Never started", (row) => row.figures.lostTo.NeverStarted),
    ],
  });
}

function placeTable(id, caption, rows, filter) {
  return new Table({
    id, caption, rows, sort: "suspect", href: (row) => hash("workloads", { [filter]: row.name }),
    columns: () => [
      { key: "name", label: caption.replace(/s$/, ""), value: (row) => row.name, cell: (row) => nameOf(row.name) },
      ...(filter === "node" ? [
        { key: "zone", label: "Zone", value: (row) => row.zone, cell: (row) => nameOf(row.zone, 24) },
        { key: "capacityOf", label: "Capacity", value: (row) => CAPACITIES[row.capacity], cell: (row) => CAPACITIES[row.capacity] || "–" }] : []),
      { key: "suspect", label: "Suspect", value: (row) => (row.suspect ? 1e9 : 0) + (state.measure.of(row.lost) ?? 0), first: "descending", cell: (row) => (row.suspect ? el("span", { class: "state s-Failed" }, "suspect") : "no") },
      number("attempts", "Attempts", (row) => row.attempts),
      number("failures", "Failures", (row) => row.failures),
      number("disruptions", "Disruptions", (row) => row.disruptions),
      number("faults", "Hardware faults", (row) => row.faults, { title: "Of these disruptions, those by a fault of the hardware" }),
      number("workloads", "Workloads", (row) => row.workloads),
      number("failing", "Only failed here", (row) => row.failing, { title: "Workloads of which an attempt failed here, and which succeeded elsewhere" }),
      { key: "expected", label: "Expected", title: "Of how many workloads an attempt would fail here if the place were like the others", number: true, value: (row) => row.expected, cell: (row) => about(row.expected) },
      usageOf("lost", "Lost", (row) => row.lost),
    ],
  });
}

function workloadColumns() {
  return [
    { key: "name", label: "Workload", value: (row) => row.name, cell: (row) => nameOf(row.name) },
    { key: "namespace", label: "Namespace", value: (row) => row.namespace, cell: (row) => nameOf(row.namespace, 28) },
    { key: "state", label: "State", value: (row) => row.state, cell: stateCell },
    usageOf("lost", "Lost", (row) => row.figures.lost),
    { key: "share", label: "Lost of used", number: true, value: (row) => share(row.figures), cell: (row) => shareCell(row.figures) },
    usageOf("used", "Used", (row) => row.figures.used),
    number("attempts", "Attempts", (row) => row.figures.used.attempts),
    { key: "last", label: "Last attempts", value: (row) => row.attempts.filter(isLost).length, title: "Sorted by how many of them were lost", first: "descending", cell: strip },
    number("retries", "Retries left", (row) => row.retriesLeft, { first: "ascending" }),
    number("disruptions", "Disruptions left", (row) => row.disruptionsLeft, { first: "ascending" }),
    { key: "end", label: "End (UTC)", number: true, value: (row) => seconds(row.end), cell: (row) => time(seconds(row.end)) },
    { key: "kind", label: "Kind", value: (row) => row.kind, cell: (row) => nameOf(row.kind, 20) },
    { key: "profile", label: "Profile", value: (row) => row.profile, cell: (row) => nameOf(row.profile, 20) },
  ];
}

const toWorkload = (row) => hash("workload", { uid: row.uid });

function filtered(rows, params) {
  const wanted = Object.fromEntries(["q", "namespace", "profile", "state", "lost", "node", "zone"].map((key) => [key, params.get(key) ?? ""]));
  const words = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) =>
    (!wanted.namespace || row.namespace === wanted.namespace) && (!wanted.profile || row.profile === wanted.profile)
    && (!wanted.state || row.state === wanted.state) && (!wanted.lost || row.figures.lostTo[wanted.lost]?.attempts > 0)
    && (!wanted.node || row.attempts.some((one) => one.node === wanted.node)) && (!wanted.zone || row.attempts.some((one) => one.zone === wanted.zone))
    && words.every((word) => row.text.includes(word)));
}

const MOST_CHOICES = 500;
function choices(select, label, values, current) {
  const wanted = [...new Set([...values.slice(0, MOST_CHOICES), ...(current ? [current] : [])])];
  const now = [...select.options].slice(1).map((one) => one.value);
  if (select.options.length === 0 || now.join("\n") !== wanted.join("\n")) {
    select.replaceChildren(el("option", { value: "" }, label), ...wanted.map((one) => el("option", { value: one }, LOSSES[one]?.label ?? (one.length > 60 ? `${one.slice(0, 59)}…` : one || "–"))));
  }
  select.value = current;
}

// A view with a table, and above it a search. `selects`: the further filters, by their key in the address.
function tableView({ title, lead, table, view, selects = [] }) {
  let built = null;
  const search = el("input", { type: "search", id: `${view}-search`, autocomplete: "off", spellcheck: "false", placeholder: "Search names" });
  const chip = el("span", { class: "chips" });
  const boxes = selects.map(({ key, label }) => ({ key, label, node: el("select", { id: `${view}-${key}`, "aria-label": label }) }));
  const apply = () => {
    const params = new URLSearchParams(state.params);
    for (const [key, value] of [["q", search.value], ...boxes.map((one) => [one.key, one.node.value])]) {
      if (value) params.set(key, value);
      else params.delete(key);
    }
    built.order.page = 0;
    address(view, params);
    built.update();
    chips();
  };
  const chips = () => {
    chip.replaceChildren(...["node", "zone"].filter((key) => selects.length && state.params.get(key)).map((key) => {
      const rest = Object.fromEntries([...state.params].filter(([name]) => name !== key));
      return el("a", { class: "chip", href: hash(view, rest) }, `${key} `, nameOf(state.params.get(key), 40), el("span", { "aria-hidden": "true" }, " ×"), hidden("; remove this filter"));
    }));
  };
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 120);
  });
  for (const { node } of boxes) node.addEventListener("change", apply);
  const form = el("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
    el("label", { class: "only-heard", for: search.id }, `Search in ${title}`), search, boxes.map((one) => one.node), chip);
  return (section) => {
    if (!built || !section.firstChild) {
      built = table();
      section.replaceChildren(...[el("h2", {}, title), lead && el("p", { class: "note lead" }, lead), form, built.node].filter(Boolean));
    }
    if (document.activeElement !== search) search.value = state.params.get("q") ?? "";
    for (const { key, label, node } of boxes) choices(node, label, selects.find((one) => one.key === key).values(), state.params.get(key) ?? "");
    chips();
    keepingFocus(() => built.update());
    return built;
  };
}

const named = (rows) => rows.filter((row) => row.name.toLowerCase().includes((state.params.get("q") ?? "").toLowerCase()));
const sortedNames = (rows) => rows.map((row) => row.name).sort();

const VIEWS = {
  overview: { label: "Overview", draw: (section) => { section.replaceChildren(...overview().filter(Boolean)); } },
  workloads: {
    label: "Workloads", size: () => state.report.workloads.length,
    draw: tableView({
      title: "Workloads", view: "workloads",
      selects: [
        { key: "namespace", label: "all namespaces", values: () => sortedNames(state.report.namespaces) },
        { key: "profile", label: "all profiles", values: () => sortedNames(state.report.profiles) },
        { key: "state", label: "any state", values: () => ["Running", "Complete", "Failed", "Suspended", "Unknown"] },
        { key: "lost", label: "lost or not", values: () => Object.keys(LOSSES) },
      ],
      table: () => new Table({ id: "workloads", caption: "Workloads", rows: () => filtered(state.report.workloads, state.params), sort: "lost", href: toWorkload, columns: workloadColumns, empty: "No workload matches." }),
    }),
  },
  namespaces: { label: "Namespaces", size: () => state.report.namespaces.length, draw: tableView({ title: "Namespaces", view: "namespaces", table: () => groupTable("namespaces", "Namespaces", () => named(state.report.namespaces), "namespace") }) },
  profiles: { label: "Profiles", size: () => state.report.profiles.length, draw: tableView({ title: "Profiles", view: "profiles", table: () => groupTable("profiles", "Profiles", () => named(state.report.profiles), "profile") }) },
  nodes: {
    label: "Nodes", size: () => state.report.nodes.length,
    draw: tableView({ title: "Nodes", view: "nodes", lead: "Suspect: so many different workloads failed only here that chance does not explain it.", table: () => placeTable("nodes", "Nodes", () => named(state.report.nodes), "node") }),
  },
  zones: { label: "Zones", size: () => state.report.zones.length, draw: tableView({ title: "Zones", view: "zones", table: () => placeTable("zones", "Zones", () => named(state.report.zones), "zone") }) },
  limits: {
    label: "Close to limits", size: () => state.report.nearLimit.length,
    draw: tableView({ title: "Close to their limits", view: "limits", lead: "Workloads that still run, and have no retry, or no disruption, left: their next failure may be their last.",
      table: () => new Table({ id: "limits", caption: "Workloads close to their limits", rows: () => filtered(state.report.nearLimit, state.params), sort: "retries", desc: false, href: toWorkload, columns: workloadColumns, empty: "No running workload is at its limit." }) }),
  },
  workload: { draw: workloadView },
};

// one workload

function workloadView(section) {
  const uid = state.params.get("uid");
  const row = state.report.byUid.get(uid);
  const back = el("p", { class: "back" }, el("a", { href: state.back, "data-keep": "back" }, "← Workloads"));
  if (!row) {
    section.replaceChildren(back, el("h2", {}, "Workload"), el("p", { class: "empty" }, "This workload is not in the report."));
    return;
  }
  const { figures: all } = row;
  const chosen = row.attempts.find((one) => one.pod === state.chosen.get(uid)) ?? row.attempts.at(-1);
  const details = el("div", { class: "card details" });
  const table = new Table({
    id: `attempts-of-${uid}`, caption: `Attempts of ${visible(row.name)}`, rows: () => row.attempts, sort: "start", desc: false, columns: attemptColumns,
    open: (one) => choose(one), chosen: (one) => one.pod === state.chosen.get(uid), empty: "No attempt of this workload is listed.",
  });
  const choose = (one) => {
    if (state.chosen.get(uid) === one.pod && details.childElementCount) return;
    state.chosen.set(uid, one.pod);
    details.replaceChildren(...attemptDetails(row, one));
    for (const button of section.querySelectorAll(".attempt")) button.setAttribute("aria-pressed", String(button.dataset.keep === `attempt ${one.pod}`));
    keepingFocus(() => table.update());
  };
  const line = timeline(row, { now: state.report.at, chosen: chosen?.pod, choose });
  const older = row.attemptsNotListed ?? 0;
  section.replaceChildren(back,
    el("div", { class: "headline" }, el("h2", {}, nameOf(row.name, 90)), stateCell(row), row.reason && el("span", { class: "note" }, nameOf(row.reason, 80))),
    el("dl", { class: "facts" },
      fact("Namespace", el("a", { href: hash("workloads", { namespace: row.namespace }) }, nameOf(row.namespace))),
      fact("Kind", nameOf(row.kind)), row.owner && fact("Owner", nameOf(row.owner)), fact("Profile", nameOf(row.profile || "–")),
      fact("Created", time(seconds(row.created))), fact("End", row.end ? time(seconds(row.end)) : "still there"),
      fact("Retries left", row.retriesLeft ?? "not known"), fact("Disruptions left", row.disruptionsLeft ?? "not known"),
      fact("Used", withUnit(all.used)), fact("Lost", `${withUnit(all.lost)} (${shareCell(all)})`)),
    el("section", { class: "card", "aria-labelledby": "timeline-title" },
      el("div", { class: "headline" }, el("h3", { id: "timeline-title" }, "Attempts over time"), legend(legendOf(row))), line,
      older > 0 && el("p", { class: "note" }, `${plural(older, "older attempt")} not listed; the figures count ${older === 1 ? "it" : "them"}.`)),
    el("div", { class: "beside" }, details, explainCard(row)),
    el("h3", {}, "All attempts that are listed"), table.node);
  if (chosen) choose(chosen);
  else details.remove();
}

// The command that tells more; none for names that Kubernetes would not allow, and that a shell could take for code.
function explainCard(row) {
  const target = `${row.namespace}/${row.kind.toLowerCase()}/${row.name}`;
  return /^[a-z0-9.-]+(\/[a-z0-9.-]+){2}$/.test(target) && el("section", { class: "card explain" }, el("h3", {}, "More from the cluster"),
    el("p", { class: "note" }, "As long as the workload exists, this tells what its next failure would do:"), el("code", {}, `retry-policy explain ${target}`));
}

const fact = (label, value) => el("div", {}, el("dt", {}, label), el("dd", {}, [value].flat(2)));

function legendOf(row) {
  const counts = new Map();
  for (const one of row.attempts) counts.set(causeOf(one), (counts.get(causeOf(one)) ?? 0) + 1);
  const parts = Object.keys(CAUSES).filter((key) => counts.has(key)).map((key) => ({ key, label: `${CAUSES[key].letter} ${CAUSES[key].label}`, text: count(counts.get(key)) }));
  if (row.attempts.some((one) => one.capacity === "Spot")) parts.push({ key: "mark-spot", label: "on spot" });
  if (row.attempts.some((one) => one.capacity === "OnDemand")) parts.push({ key: "mark-on-demand", label: "on-demand" });
  parts.push({ key: "mark-gap", label: "waiting" });
  return parts;
}

const spentWords = (one) => (one.cause ? COSTS[one.cost || "none"] : "");

function attemptColumns() {
  return [
    { key: "pod", label: "Pod", value: (one) => one.pod, cell: (one) => nameOf(one.pod) },
    { key: "scope", label: "Scope", value: (one) => one.scope ?? "", cell: (one) => (one.scope ? nameOf(one.scope, 24) : "–") },
    number("attempt", "Attempt", (one) => one.attempt ?? 0, { first: "ascending" }),
    { key: "cause", label: "How it ended", value: (one) => CAUSES[causeOf(one)].label, cell: (one) => el("span", { class: "how" }, el("span", { class: `cell c-${causeOf(one)}`, "aria-hidden": "true" }, CAUSES[causeOf(one)].letter), CAUSES[causeOf(one)].label, one.reason && el("span", { class: "note" }, nameOf(one.reason, 40))) },
    { key: "node", label: "Node", value: (one) => one.node ?? "", cell: (one) => (one.node ? nameOf(one.node, 32) : "–") },
    { key: "capacity", label: "Capacity", value: (one) => CAPACITIES[one.capacity ?? ""], cell: (one) => CAPACITIES[one.capacity ?? ""] || "–" },
    { key: "start", label: "Start (UTC)", number: true, first: "ascending", value: (one) => seconds(one.start || one.end), cell: (one) => time(seconds(one.start), { exact: true }) },
    { key: "seconds", label: "Ran for", number: true, value: (one) => one.seconds ?? 0, cell: (one) => duration(one.seconds ?? 0) },
    { key: "cost", label: "It cost", value: spentWords, cell: (one) => spentWords(one) || "–" },
    { key: "rule", label: "Decided by", value: (one) => one.rule ?? "", cell: (one) => (one.rule ? nameOf(one.rule, 60) : "–") },
    number("retries", "Retries left", (one) => one.retriesLeft, { first: "ascending" }),
    number("disruptions", "Disruptions left", (one) => one.disruptionsLeft, { first: "ascending" }),
    { key: "price", label: `Price${state.report.currency ? ` (${state.report.currency})` : ""}`, number: true, value: (one) => one.price, cell: (one) => (one.price === null || one.price === undefined ? "–" : moneyIn(state.report.currency)(one.price)) },
  ];
}

function attemptDetails(row, one) {
  const cause = causeOf(one);
  return [
    el("h3", {}, el("span", { class: `cell c-${cause}`, "aria-hidden": "true" }, CAUSES[cause].letter), nameOf(one.pod, 70)),
    el("dl", { class: "facts" },
      fact("How it ended", [CAUSES[cause].label, one.reason && [": ", nameOf(one.reason, 120)]]),
      fact("It cost", spentWords(one) || "nothing yet"),
      fact("Decided by", one.rule ? nameOf(one.rule, 120) : isLost(one) ? "the policy's defaults" : "–"),
      one.settled && fact("Settled", "the ledger found later that this end was fatal"),
      fact("Left after it", `${one.retriesLeft ?? "?"} retries, ${one.disruptionsLeft ?? "?"} disruptions`),
      fact("Scope", one.scope ? nameOf(one.scope) : "all pods"), fact("Attempt", one.attempt ?? 0),
      fact("Node", one.node ? el("a", { href: hash("workloads", { node: one.node }) }, nameOf(one.node)) : "none"),
      one.zone && fact("Zone", nameOf(one.zone)), fact("Capacity", CAPACITIES[one.capacity ?? ""] || "not known"),
      one.placement && fact("Placed by the policy", CAPACITIES[one.placement] ?? nameOf(one.placement)),
      fact("Start", one.start ? `${time(seconds(one.start), { exact: true })}` : "never started"),
      fact("End", one.end ? time(seconds(one.end), { exact: true }) : "still running"), fact("Ran for", duration(one.seconds ?? 0)),
      one.price !== null && one.price !== undefined && fact("Price", moneyIn(state.report.currency)(one.price)))];
}
