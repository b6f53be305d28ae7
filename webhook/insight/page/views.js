// The views. Each is a section that is drawn when it is first shown, and again when the report or the unit changes.

const state = { report: null, measure: null, params: new URLSearchParams(), chosen: new Map(), back: "#workloads" };
const hash = (view, params = {}) => {
  const text = new URLSearchParams(Object.entries(params).filter(([, value]) => value)).toString();
  return `#${view}${text ? `?${text}` : ""}`;
};
const money = () => state.measure.key === "price";
const show = (used) => {
  const value = state.measure.of(used);
  return value === null ? "–" : state.measure.format(value);
};
const withUnit = (used) => {
  const text = show(used);
  return text === "–" || money() ? text : `${text} ${state.measure.unit}`;
};
const inUnit = (label) => (money() ? label : `${label}, ${state.measure.unit}`);
const share = (figures) => {
  const used = state.measure.of(figures.used), lost = state.measure.of(figures.lost);
  return used && lost !== null ? lost / used : null;
};
const goodput = (figures) => {
  const of = state.measure.of, used = of(figures.used);
  return used && of(figures.lost) !== null ? (used - of(figures.lost) + (of(figures.kept) ?? 0)) / used : null;
};
const shareCell = (figures) => (share(figures) === null ? "–" : percent(share(figures), 1));
const stateCell = (workload) => el("span", { class: `state s-${workload.state}`, title: workload.reason ? visible(workload.reason) : null }, workload.state);
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
  const starts = report.series.map((bucket) => bucket.start);
  const format = (value, short) => (money() ? measure.format(value).replace(short ? /\.00$/ : "", "") : short ? value.toLocaleString("en", value < 1 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 2 }) : `${amount(value)} ${measure.unit}`);
  const charts = el("div", { class: "charts" },
    barsOverTime({ id: "lost-chart", title: "Lost over time", note: inUnit("By what it was lost to"), starts, width: report.bar, series: lostSeries(), format }),
    barsOverTime({ id: "used-chart", title: "Used over time", note: inUnit("Spot against on-demand"), starts, width: report.bar, format, series: [
      { key: "OnDemand", label: "On-demand", values: valuesOf((bucket) => bucket.onDemand) }, { key: "Spot", label: "Spot", values: valuesOf((bucket) => bucket.spot) }] }),
    barsOverTime({ id: "causes-chart", title: "Attempts that ended", note: "By how they ended", starts, width: report.bar, whole: true, format: (value) => count(value),
      series: Object.keys(CAUSES).filter((key) => key !== "Capacity" && key !== "Running").map((key) => ({ key, label: CAUSES[key].label, values: report.series.map((bucket) => bucket.causes[key] ?? 0) })) }));
  return [el("h2", { class: "visually-hidden" }, "Overview"), tiles, suspects(), charts, lostMost(), notes()];
}

const valuesOf = (of) => state.report.series.map((bucket) => state.measure.of(of(bucket)) ?? 0);

const lostSeries = () => Object.entries(LOSSES).map(([key, { label }]) => ({ key, label, values: valuesOf((bucket) => bucket.lostTo[key]) }));

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
  const lostBy = (workload) => measure.of(workload.figures.lost) ?? 0;
  const top = [...report.workloads].sort((a, b) => lostBy(b) - lostBy(a)).slice(0, 10);
  const most = top.length ? lostBy(top[0]) : 0;
  const rows = top.filter((workload) => lostBy(workload) > 0);
  return el("section", { class: "card", "aria-labelledby": "lost-most" }, el("h3", { id: "lost-most" }, "Workloads that lost most"),
    rows.length === 0 ? el("p", { class: "empty" }, "No attempt was lost.") : el("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": "lost-most" }, el("table", { class: "ranked" },
      el("thead", {}, el("tr", {}, ["Workload", "Namespace", inUnit("Lost"), "", "Most often because of"].map((label, at) => el("th", { scope: "col", class: at === 2 ? "number" : at === 3 ? "wide" : null }, label || hidden("To what"))))),
      el("tbody", {}, rows.map((workload) => el("tr", {},
        el("th", { scope: "row" }, el("a", { href: hash("workload", { uid: workload.uid }), "data-keep": `top ${workload.uid}` }, nameOf(workload.name))),
        el("td", {}, nameOf(workload.namespace, 32)),
        el("td", { class: "number" }, show(workload.figures.lost)),
        el("td", { class: "wide" }, partsBar(lossParts(workload.figures, measure), { whole: most })),
        el("td", {}, why(workload))))))));
}

function why(workload) {
  const counts = new Map();
  for (const attempt of workload.attempts) {
    if (!isLost(attempt)) continue;
    const words = `${CAUSES[causeOf(attempt)].label}${attempt.reason ? ` (${attempt.reason})` : ""}`;
    counts.set(words, (counts.get(words) ?? 0) + 1);
  }
  const [first] = [...counts].sort((a, b) => b[1] - a[1]);
  return first ? nameOf(`${count(first[1])} × ${first[0]}`, 70) : "–";
}

function suspects() {
  const found = [...state.report.nodes, ...state.report.zones].filter((place) => place.suspect);
  const near = state.report.nearLimit.length;
  return el("section", { class: "card", "aria-labelledby": "attention" }, el("h3", { id: "attention" }, "Needs attention"),
    el("ul", { class: "plain-list" },
      found.slice(0, 6).map((place) => el("li", {}, el("a", { href: hash("workloads", state.report.zones.includes(place) ? { zone: place.name } : { node: place.name }) }, nameOf(place.name)),
        `: attempts of ${plural(place.failing, "workload")} failed there that succeeded elsewhere; by chance it would be ${about(place.expected)}`)),
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
    id, caption, rows, sort: "lost", href: (group) => hash("workloads", { [filter]: group.name }),
    columns: () => [
      { key: "name", label: caption.replace(/s$/, ""), value: (group) => group.name, cell: (group) => nameOf(group.name) },
      number("workloads", "Workloads", (group) => group.figures.workloads),
      number("failed", "Failed", (group) => group.figures.failed),
      number("attempts", "Attempts", (group) => group.figures.used.attempts),
      usageOf("used", "Used", (group) => group.figures.used),
      { key: "spot", label: "On spot", number: true, value: (group) => (state.measure.of(group.figures.spot) ?? 0) / (state.measure.of(group.figures.used) || 1), cell: (group) => percent(state.measure.of(group.figures.spot) ?? 0, state.measure.of(group.figures.used) ?? 0) },
      usageOf("lost", "Lost", (group) => group.figures.lost),
      { key: "share", label: "Lost of used", number: true, value: (group) => share(group.figures), cell: (group) => shareCell(group.figures) },
      { key: "to", label: "Lost to", class: "wide", value: (group) => (state.measure.of(group.figures.lostTo.Bugs) ?? 0) / (state.measure.of(group.figures.lost) || 1), title: "Sorted by the part lost to bugs", first: "descending", cell: (group) => partsBar(lossParts(group.figures, state.measure)) },
      usageOf("bugs", "Bugs", (group) => group.figures.lostTo.Bugs),
      usageOf("disruptions", "Disruptions", (group) => group.figures.lostTo.Disruptions),
      usageOf("capacity", "No capacity", (group) => group.figures.lostTo.Capacity),
      usageOf("neverStarted", "Never started", (group) => group.figures.lostTo.NeverStarted),
    ],
  });
}

function placeTable(id, caption, rows, filter) {
  return new Table({
    id, caption, rows, sort: "suspect", href: (place) => hash("workloads", { [filter]: place.name }),
    columns: () => [
      { key: "name", label: caption.replace(/s$/, ""), value: (place) => place.name, cell: (place) => nameOf(place.name) },
      ...(filter === "node" ? [
        { key: "zone", label: "Zone", value: (place) => place.zone, cell: (place) => nameOf(place.zone, 24) },
        { key: "capacityOf", label: "Capacity", value: (place) => CAPACITIES[place.capacity], cell: (place) => CAPACITIES[place.capacity] || "–" }] : []),
      { key: "suspect", label: "Suspect", value: (place) => (place.suspect ? 1e9 : 0) + (state.measure.of(place.lost) ?? 0), first: "descending", cell: (place) => (place.suspect ? el("span", { class: "state s-Failed" }, "suspect") : "no") },
      number("attempts", "Attempts", (place) => place.attempts),
      number("failures", "Failures", (place) => place.failures),
      number("disruptions", "Disruptions", (place) => place.disruptions),
      number("faults", "Hardware faults", (place) => place.faults, { title: "Of these disruptions, those by a fault of the hardware" }),
      number("workloads", "Workloads", (place) => place.workloads),
      number("failing", "Only failed here", (place) => place.failing, { title: "Workloads of which an attempt failed here, and which succeeded elsewhere" }),
      { key: "expected", label: "Expected", title: "Of how many workloads an attempt would fail here if the place were like the others", number: true, value: (place) => place.expected, cell: (place) => about(place.expected) },
      usageOf("lost", "Lost", (place) => place.lost),
    ],
  });
}

function workloadColumns() {
  return [
    { key: "name", label: "Workload", value: (workload) => workload.name, cell: (workload) => nameOf(workload.name) },
    { key: "namespace", label: "Namespace", value: (workload) => workload.namespace, cell: (workload) => nameOf(workload.namespace, 28) },
    { key: "state", label: "State", value: (workload) => workload.state, cell: stateCell },
    usageOf("lost", "Lost", (workload) => workload.figures.lost),
    { key: "share", label: "Lost of used", number: true, value: (workload) => share(workload.figures), cell: (workload) => shareCell(workload.figures) },
    usageOf("used", "Used", (workload) => workload.figures.used),
    number("attempts", "Attempts", (workload) => workload.figures.used.attempts),
    { key: "last", label: "Last attempts", value: (workload) => workload.attempts.filter(isLost).length, title: "Sorted by how many of them were lost", first: "descending", cell: strip },
    number("retries", "Retries left", (workload) => workload.retriesLeft, { first: "ascending" }),
    number("disruptions", "Disruptions left", (workload) => workload.disruptionsLeft, { first: "ascending" }),
    { key: "end", label: "End (UTC)", number: true, value: (workload) => seconds(workload.end), cell: (workload) => time(seconds(workload.end)) },
    { key: "kind", label: "Kind", value: (workload) => workload.kind, cell: (workload) => nameOf(workload.kind, 20) },
    { key: "profile", label: "Profile", value: (workload) => workload.profile, cell: (workload) => nameOf(workload.profile, 20) },
  ];
}

const toWorkload = (workload) => hash("workload", { uid: workload.uid });

function filtered(rows, params) {
  const wanted = Object.fromEntries(["q", "namespace", "profile", "state", "lost", "node", "zone"].map((key) => [key, params.get(key) ?? ""]));
  const words = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((workload) =>
    (!wanted.namespace || workload.namespace === wanted.namespace) && (!wanted.profile || workload.profile === wanted.profile)
    && (!wanted.state || workload.state === wanted.state) && (!wanted.lost || workload.figures.lostTo[wanted.lost]?.attempts > 0)
    && (!wanted.node || workload.attempts.some((attempt) => attempt.node === wanted.node)) && (!wanted.zone || workload.attempts.some((attempt) => attempt.zone === wanted.zone))
    && words.every((word) => workload.text.includes(word)));
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
    el("label", { class: "visually-hidden", for: search.id }, `Search in ${title}`), search, boxes.map((one) => one.node), chip);
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
  const workload = state.report.byUid.get(uid);
  const back = el("p", { class: "back" }, el("a", { href: state.back, "data-keep": "back" }, "← Workloads"));
  if (!workload) {
    section.replaceChildren(back, el("h2", {}, "Workload"), el("p", { class: "empty" }, "This workload is not in the report."));
    return;
  }
  const { figures } = workload;
  const latest = workload.attempts.find((attempt) => attempt.pod === state.chosen.get(uid)) ?? workload.attempts.at(-1);
  const details = el("div", { class: "card details" });
  const table = new Table({
    id: `attempts-of-${uid}`, caption: `Attempts of ${visible(workload.name)}`, rows: () => workload.attempts, sort: "start", desc: false, columns: attemptColumns,
    open: (attempt) => choose(attempt), chosen: (attempt) => attempt.pod === state.chosen.get(uid), empty: "No attempt of this workload is listed.",
  });
  const choose = (attempt) => {
    if (state.chosen.get(uid) === attempt.pod && details.childElementCount) return;
    state.chosen.set(uid, attempt.pod);
    details.replaceChildren(...attemptDetails(workload, attempt));
    for (const button of section.querySelectorAll(".attempt")) button.setAttribute("aria-pressed", String(button.dataset.keep === `attempt ${attempt.pod}`));
    keepingFocus(() => table.update());
  };
  const line = timeline(workload, { now: state.report.at, chosen: latest?.pod, choose });
  const older = workload.attemptsNotListed ?? 0;
  section.replaceChildren(back,
    el("div", { class: "headline" }, el("h2", {}, nameOf(workload.name, 90)), stateCell(workload), workload.reason && el("span", { class: "note" }, nameOf(workload.reason, 80))),
    el("dl", { class: "facts" },
      fact("Namespace", el("a", { href: hash("workloads", { namespace: workload.namespace }) }, nameOf(workload.namespace))),
      fact("Kind", nameOf(workload.kind)), workload.owner && fact("Owner", nameOf(workload.owner)), fact("Profile", nameOf(workload.profile || "–")),
      fact("Created", time(seconds(workload.created))), fact("End", workload.end ? time(seconds(workload.end)) : "still there"),
      fact("Retries left", workload.retriesLeft ?? "not known"), fact("Disruptions left", workload.disruptionsLeft ?? "not known"),
      fact("Used", withUnit(figures.used)), fact("Lost", `${withUnit(figures.lost)} (${shareCell(figures)})`)),
    el("section", { class: "card", "aria-labelledby": "timeline-title" },
      el("div", { class: "headline" }, el("h3", { id: "timeline-title" }, "Attempts over time"), legend(legendOf(workload))), line,
      older > 0 && el("p", { class: "note" }, `${plural(older, "older attempt")} not listed; the figures count ${older === 1 ? "it" : "them"}.`)),
    el("div", { class: "beside" }, details, explainCard(workload)),
    el("h3", {}, "All attempts that are listed"), table.node);
  if (latest) choose(latest);
  else details.remove();
}

// The command that tells more; none for names that Kubernetes would not allow, and that a shell could take for code.
function explainCard(workload) {
  const target = `${workload.namespace}/${workload.kind.toLowerCase()}/${workload.name}`;
  return /^[a-z0-9.-]+(\/[a-z0-9.-]+){2}$/.test(target) && el("section", { class: "card explain" }, el("h3", {}, "More from the cluster"),
    el("p", { class: "note" }, "As long as the workload exists, this tells what its next failure would do:"), el("code", {}, `retry-policy explain ${target}`));
}

const fact = (label, value) => el("div", {}, el("dt", {}, label), el("dd", {}, [value].flat(2)));

function legendOf(workload) {
  const counts = new Map();
  for (const attempt of workload.attempts) counts.set(causeOf(attempt), (counts.get(causeOf(attempt)) ?? 0) + 1);
  const parts = Object.keys(CAUSES).filter((key) => counts.has(key)).map((key) => ({ key, label: `${CAUSES[key].letter} ${CAUSES[key].label}`, text: count(counts.get(key)) }));
  if (workload.attempts.some((attempt) => attempt.capacity === "Spot")) parts.push({ key: "mark-spot", label: "on spot" });
  if (workload.attempts.some((attempt) => attempt.capacity === "OnDemand")) parts.push({ key: "mark-on-demand", label: "on-demand" });
  parts.push({ key: "mark-gap", label: "waiting" });
  return parts;
}

const spentWords = (attempt) => (attempt.cause ? COSTS[attempt.cost || "none"] : "");

function attemptColumns() {
  return [
    { key: "pod", label: "Pod", value: (attempt) => attempt.pod, cell: (attempt) => nameOf(attempt.pod) },
    { key: "scope", label: "Scope", value: (attempt) => attempt.scope ?? "", cell: (attempt) => (attempt.scope ? nameOf(attempt.scope, 24) : "–") },
    number("attempt", "Attempt", (attempt) => attempt.attempt ?? 0, { first: "ascending" }),
    { key: "cause", label: "How it ended", value: (attempt) => CAUSES[causeOf(attempt)].label, cell: (attempt) => el("span", { class: "how" }, el("span", { class: `cell c-${causeOf(attempt)}`, "aria-hidden": "true" }, CAUSES[causeOf(attempt)].letter), CAUSES[causeOf(attempt)].label, attempt.reason && el("span", { class: "note" }, nameOf(attempt.reason, 40))) },
    { key: "node", label: "Node", value: (attempt) => attempt.node ?? "", cell: (attempt) => (attempt.node ? nameOf(attempt.node, 32) : "–") },
    { key: "capacity", label: "Capacity", value: (attempt) => CAPACITIES[attempt.capacity ?? ""], cell: (attempt) => CAPACITIES[attempt.capacity ?? ""] || "–" },
    { key: "start", label: "Start (UTC)", number: true, first: "ascending", value: (attempt) => seconds(attempt.start || attempt.end), cell: (attempt) => time(seconds(attempt.start), { exact: true }) },
    { key: "seconds", label: "Ran for", number: true, value: (attempt) => attempt.seconds ?? 0, cell: (attempt) => duration(attempt.seconds ?? 0) },
    { key: "cost", label: "It cost", value: spentWords, cell: (attempt) => spentWords(attempt) || "–" },
    { key: "rule", label: "Decided by", value: (attempt) => attempt.rule ?? "", cell: (attempt) => (attempt.rule ? nameOf(attempt.rule, 60) : "–") },
    number("retries", "Retries left", (attempt) => attempt.retriesLeft, { first: "ascending" }),
    number("disruptions", "Disruptions left", (attempt) => attempt.disruptionsLeft, { first: "ascending" }),
    { key: "price", label: `Price${state.report.currency ? ` (${state.report.currency})` : ""}`, number: true, value: (attempt) => attempt.price, cell: (attempt) => (attempt.price === null || attempt.price === undefined ? "–" : moneyIn(state.report.currency)(attempt.price)) },
  ];
}

function attemptDetails(workload, attempt) {
  const cause = causeOf(attempt);
  return [
    el("h3", {}, el("span", { class: `cell c-${cause}`, "aria-hidden": "true" }, CAUSES[cause].letter), nameOf(attempt.pod, 70)),
    el("dl", { class: "facts" },
      fact("How it ended", [CAUSES[cause].label, attempt.reason && [": ", nameOf(attempt.reason, 120)]]),
      fact("It cost", spentWords(attempt) || "nothing yet"),
      fact("Decided by", attempt.rule ? nameOf(attempt.rule, 120) : isLost(attempt) ? "the policy's defaults" : "–"),
      attempt.settled && fact("Settled", "the ledger found later that this end was fatal"),
      fact("Left after it", `${attempt.retriesLeft ?? "?"} retries, ${attempt.disruptionsLeft ?? "?"} disruptions`),
      fact("Scope", attempt.scope ? nameOf(attempt.scope) : "all pods"), fact("Attempt", attempt.attempt ?? 0),
      fact("Node", attempt.node ? el("a", { href: hash("workloads", { node: attempt.node }) }, nameOf(attempt.node)) : "none"),
      attempt.zone && fact("Zone", nameOf(attempt.zone)), fact("Capacity", CAPACITIES[attempt.capacity ?? ""] || "not known"),
      attempt.placement && fact("Placed by the policy", CAPACITIES[attempt.placement] ?? nameOf(attempt.placement)),
      fact("Start", attempt.start ? `${time(seconds(attempt.start), { exact: true })}` : "never started"),
      fact("End", attempt.end ? time(seconds(attempt.end), { exact: true }) : "still running"), fact("Ran for", duration(attempt.seconds ?? 0)),
      attempt.price !== null && attempt.price !== undefined && fact("Price", moneyIn(state.report.currency)(attempt.price)))];
}
