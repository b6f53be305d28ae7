// Routes, the switches on top, printing, and the live connection of the dashboard.

const sections = new Map();
let view = "overview";

function address(name, params) {
  const text = hash(name, Object.fromEntries(params));
  state.params = params;
  if (name === "workloads") state.back = text;
  history.replaceState(null, "", text);
}

function routed() {
  const [name, query] = location.hash.slice(1).split(/\?(.*)/s);
  return { name: Object.hasOwn(VIEWS, name) ? name : "overview", params: new URLSearchParams(query ?? "") };
}

function sectionOf(name) {
  if (!sections.has(name)) {
    const section = el("section", { class: "view", id: `view-${name}`, hidden: true });
    sections.set(name, section);
    const order = Object.keys(VIEWS).filter((one) => sections.has(one));
    byId("main").insertBefore(section, sections.get(order[order.indexOf(name) + 1]) ?? null);
  }
  return sections.get(name);
}

function draw(name = view) {
  const open = [...document.querySelectorAll("figure details[open]")].map((one) => one.parentElement.id);
  const result = VIEWS[name].draw(sectionOf(name));
  for (const id of open) {
    const details = byId(id)?.querySelector("details");
    if (details) details.open = true;
  }
  return result;
}

function go({ moved = true } = {}) {
  if (location.hash === "#main" || !state.report) return;
  const { name, params } = routed();
  const other = name !== view || params.get("uid") !== state.params.get("uid");
  state.params = params;
  view = name;
  if (name === "workloads") state.back = location.hash || "#workloads";
  const section = sectionOf(name);
  for (const one of sections.values()) one.hidden = one !== section;
  document.body.dataset.view = name;
  draw();
  navigation();
  if (moved && other) {
    window.scrollTo(0, 0);
    const heading = section.querySelector("h2");
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }
}

function navigation() {
  keepingFocus(() => byId("nav").replaceChildren(...Object.entries(VIEWS).filter(([, one]) => one.label).map(([name, one]) => {
    const current = name === view || (view === "workload" && name === "workloads");
    return el("a", { href: `#${name}`, "aria-current": current ? "page" : null, "data-keep": `nav ${name}` }, one.label,
      one.size && el("span", { class: "size" }, count(one.size())));
  })));
}

function heading() {
  const { report } = state;
  const source = report.source === "cluster" ? "from the cluster's accounts and pods" : "from the history";
  const from = dateOf(seconds(report.since)), to = dateOf(seconds(report.until));
  const span = from || to ? `, ${from || "the beginning"} to ${to || "now"} UTC` : "";
  byId("about").replaceChildren(nameOf(report.scope || "cluster", 80), span, `, ${source}; written ${dateOf(report.at)} UTC`);
  document.title = `Retry report: ${report.scope || "cluster"}`;
}

function unit() {
  const select = byId("measure");
  const key = state.measure?.key;
  state.measure = state.report.measures.find((one) => one.key === key) ?? state.report.measures[0];
  select.replaceChildren(...state.report.measures.map((one) => el("option", { value: one.key }, one.label)));
  select.value = state.measure.key;
}

// Show a report in place of the last one. The view, its filters, order, page, focus and scroll position stay.
function take(raw) {
  const first = !state.report;
  state.report = prepare(raw);
  byId("loading")?.remove();
  unit();
  heading();
  if (first) {
    go({ moved: false });
    return;
  }
  const sides = [...document.querySelectorAll(".scroll")].map((one) => [one.getAttribute("aria-label"), one.scrollLeft]);
  keepingFocus(() => draw());
  navigation();
  for (const one of document.querySelectorAll(".scroll")) one.scrollLeft = sides.find(([label]) => label === one.getAttribute("aria-label"))?.[1] ?? 0;
}

function warn(message) {
  const box = byId("alert");
  if (box.textContent !== message) box.textContent = message;
  box.hidden = !message;
}

function theme() {
  const select = byId("theme");
  const set = (value) => {
    if (value) document.documentElement.dataset.theme = value;
    else delete document.documentElement.dataset.theme;
    select.value = value;
  };
  try {
    const stored = localStorage.getItem("retry-policy-theme");
    if (stored === "light" || stored === "dark") set(stored);
  } catch { /* a browser may keep nothing for a file */ }
  select.addEventListener("change", () => {
    set(select.value);
    try {
      localStorage.setItem("retry-policy-theme", select.value);
    } catch { /* likewise */ }
  });
}

// On paper every view follows the other, with at most 100 rows of each table; one workload is printed alone.
function printing() {
  const whole = () => state.report && view !== "workload";
  window.addEventListener("beforeprint", () => {
    if (!whole()) return;
    for (const [name, one] of Object.entries(VIEWS)) if (one.label) draw(name)?.update?.({ all: true });
  });
  window.addEventListener("afterprint", () => {
    if (whole()) for (const [name, one] of Object.entries(VIEWS)) if (one.label && sections.has(name)) draw(name);
  });
}

// the dashboard

let withdrawals = 0; // a report that was asked for before one of them must not be shown after it

// Show nothing of the last report: the user may no longer read it.
function withdraw() {
  withdrawals += 1;
  state.report = null;
  for (const one of sections.values()) one.remove();
  sections.clear();
  byId("nav").replaceChildren();
  byId("about").replaceChildren();
}

function live() {
  const line = byId("live");
  line.hidden = false;
  const say = (text, good) => {
    line.className = good ? "live good" : "live";
    if (line.textContent !== text) line.textContent = text;
  };
  say("Connecting …", false);
  let reading = false, again = false, problem = "";
  const asOf = (at) => say(`Live, as of ${time(seconds(at), { date: false, exact: true })} UTC`, !problem);
  const ended = "The session has ended. Start retry-policy dashboard again, and open the address that it prints.";
  const read = async () => {
    if (reading) {
      again = true;
      return;
    }
    reading = true;
    try {
      do {
        again = false;
        const before = withdrawals;
        const answer = await fetch("report", { cache: "no-store" });
        if (answer.status === 403) throw new Error(ended);
        if (answer.status === 204) break;
        if (!answer.ok) throw new Error((await answer.text()).trim());
        const report = await answer.json();
        if (before === withdrawals) take(report);
      } while (again);
      if (!problem) warn("");
    } catch (error) {
      warn(error instanceof TypeError && !state.report ? "The dashboard cannot be reached." : String(error.message));
    } finally {
      reading = false;
    }
  };
  const events = new EventSource("events");
  events.addEventListener("report", read);
  events.addEventListener("checked", (event) => {
    problem = "";
    warn("");
    asOf(event.data);
  });
  events.addEventListener("problem", (event) => {
    problem = event.data;
    warn(`${event.data}${state.report ? " The page shows the last report." : ""}`);
    say("Not up to date", false);
  });
  events.addEventListener("withdrawn", (event) => {
    problem = event.data;
    withdraw();
    warn(event.data);
    say("No report", false);
  });
  events.addEventListener("error", () => {
    say("Not connected", false);
    warn(events.readyState === EventSource.CLOSED ? ended : "The dashboard does not answer; this page tries again. It shows the last report.");
  });
}

function start() {
  theme();
  printing();
  window.addEventListener("hashchange", () => go());
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
  byId("measure").addEventListener("change", () => {
    state.measure = state.report.measures.find((one) => one.key === byId("measure").value);
    draw();
  });
  const block = byId("report");
  if (!block) {
    live();
    return;
  }
  try {
    take(JSON.parse(block.textContent));
  } catch (error) {
    byId("loading")?.remove();
    warn(`The report in this page cannot be read: ${error.message}`);
  }
  block.remove();
}

start();
