// The attempts of one workload over time: a lane for each scope, as in a CI system's timeline.

function timeline(workload, { now, chosen, choose }) {
  const attempts = workload.attempts.map((attempt, number) => {
    const to = attempt.end ? seconds(attempt.end) : now;
    const from = attempt.start ? seconds(attempt.start) : to;
    return { attempt, number, from, to };
  });
  if (!attempts.length) return el("p", { class: "empty" }, "No attempt of this workload is listed.");
  const created = seconds(workload.created);
  const first = Math.min(...attempts.map((at) => at.from), Number.isFinite(created) ? created : Infinity);
  const last = Math.max(...attempts.map((at) => at.to));
  const length = Math.max(1, last - first);
  const place = (at) => `${(100 * (at - first)) / length}%`;
  const lanes = new Map();
  for (const at of attempts) {
    const scope = at.attempt.scope ?? "";
    if (!lanes.has(scope)) lanes.set(scope, []);
    lanes.get(scope).push(at);
  }
  const box = el("div", { class: "timeline", role: "group", "aria-label": `Timeline of ${plural(attempts.length, "attempt")}; the arrow keys move between them` });
  box.append(axis(first, last, place));
  const ordered = [...lanes].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  for (const [scope, members] of ordered) box.append(lane(scope, members, { created, place, length, chosen, choose, alone: lanes.size === 1 }));
  roving(box, ".attempt", { vertical: false });
  return box;
}

function axis(first, last, place) {
  const most = window.innerWidth < 700 ? 3 : 8;
  const marks = timeMarks(first, last, most).map((mark) => el("span", { style: { left: place(mark.at) } }, mark.label));
  return el("div", { class: "axis", "aria-hidden": "true" }, el("span", { class: "lane-name" }, dateOf(first).split(" ").slice(0, 2).join(" "), el("span", { class: "zone" }, ", UTC")), el("div", { class: "track" }, marks));
}

function lane(scope, members, { created, place, length, chosen, choose, alone }) {
  const lines = [];  // attempts that overlap are below each other
  for (const at of members.sort((a, b) => a.from - b.from || a.to - b.to)) {
    let line = lines.find((other) => other.at(-1).to <= at.from + length / 500);
    if (!line) lines.push((line = []));
    line.push(at);
  }
  const name = scope || (alone ? "all pods" : "no index");
  const tracks = lines.map((line) => {
    const track = el("div", { class: "track" });
    let before = lines.length === 1 ? created : NaN;
    for (const at of line) {
      if (lines.length === 1 && at.from - before > 0) {
        const wait = duration(at.from - before);
        track.append(el("span", { class: "gap", title: `waited ${wait}`, "aria-hidden": "true", style: { left: place(before), width: `${(100 * (at.from - before)) / length}%` } }));
      }
      track.append(attemptButton(at, { wait: at.from - before, place, length, chosen, choose }));
      before = at.to;
    }
    return track;
  });
  return el("div", { class: "lane", role: "group", "aria-label": `Scope ${visible(name)}` }, el("span", { class: "lane-name" }, nameOf(name, 22)), el("div", { class: "tracks" }, tracks));
}

function attemptButton(at, { wait, place, length, chosen, choose }) {
  const { attempt } = at;
  const cause = causeOf(attempt);
  const words = visible(sentenceOf(attempt, wait));
  const button = el("button", {
    type: "button", class: `attempt c-${cause} ${attempt.capacity === "Spot" ? "on-spot" : attempt.capacity === "OnDemand" ? "on-demand" : "nowhere"}`,
    "aria-label": words, title: words, "aria-pressed": String(attempt.pod === chosen), "data-keep": `attempt ${attempt.pod}`,
    style: { left: place(at.from), width: `max(9px, ${(100 * (at.to - at.from)) / length}%)` },
    onclick: () => choose(attempt), onfocus: () => choose(attempt),
  }, el("span", { class: "letter", "aria-hidden": "true" }, CAUSES[cause].letter), el("span", { class: "where", "aria-hidden": "true" }, visible(attempt.node ?? "")));
  if (attempt.pod === chosen) {
    button.dataset.current = "yes";
    button.tabIndex = 0;
  }
  return button;
}

function sentenceOf(attempt, wait) {
  const start = attempt.start ? time(seconds(attempt.start)) : "never started";
  const end = attempt.end ? time(seconds(attempt.end)) : "now";
  return [
    `${CAUSES[causeOf(attempt)].label}${attempt.reason ? ` (${attempt.reason})` : ""}`,
    `attempt ${attempt.attempt ?? 0}`,
    attempt.node ? `on ${attempt.node}${attempt.capacity ? `, ${CAPACITIES[attempt.capacity]}` : ""}` : "on no node",
    attempt.start ? `${start} to ${end}, ${duration(attempt.seconds ?? 0)}` : `${start}, ended ${end}`,
    wait > 0 ? `after a wait of ${duration(wait)}` : "",
  ].filter(Boolean).join(", ");
}

// The letters of the last attempts, the newest on the right; one picture for a screen reader.
const MOST_LETTERS = 10;
function strip(workload) {
  const last = workload.attempts.slice(-MOST_LETTERS);
  const words = last.map((attempt) => CAUSES[causeOf(attempt)].label).join(", ");
  const more = workload.figures.used.attempts > last.length;
  return el("span", { class: "strip", role: "img", "aria-label": words || "none", title: words },
    more && el("span", { class: "more" }, "…"),
    last.map((attempt) => el("span", { class: `cell c-${causeOf(attempt)}` }, CAUSES[causeOf(attempt)].letter)));
}
