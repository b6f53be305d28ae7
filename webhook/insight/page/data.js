// The report as the views read it. Fields that the report leaves out have their defaults here.

const NO_USAGE = { attempts: 0, seconds: 0, resources: {}, price: 0 };
const usage = (one) => ({ attempts: 0, seconds: 0, price: null, ...one, resources: one?.resources ?? {} });

function figures(one) {
  return {
    ...one, used: usage(one.used), spot: usage(one.spot), onDemand: usage(one.onDemand), lost: usage(one.lost), lostTo: lostTo(one),
    savedRetries: usage(one.savedRetries), kept: usage(one.kept),
  };
}

const lostTo = (one) => Object.fromEntries(Object.keys(LOSSES).map((loss) => [loss, one.lostTo?.[loss] ? usage(one.lostTo[loss]) : NO_USAGE]));

function prepare(raw) {
  if (raw?.version !== 1) throw new Error(`This page shows reports of version 1; this one has version ${raw?.version}.`);
  const report = { ...raw, total: figures(raw.total), byUid: new Map() };
  report.at = seconds(raw.written);
  report.namespaces = raw.namespaces.map((row) => ({ name: row.name, figures: figures(row.figures) }));
  report.profiles = raw.profiles.map((row) => ({ name: row.name, figures: figures(row.figures) }));
  report.workloads = raw.workloads.map((row) => {
    const found = { ...row, figures: figures(row.figures), text: `${row.namespace}/${row.name} ${row.kind} ${row.owner} ${row.reason}`.toLowerCase() };
    report.byUid.set(row.uid, found);
    return found;
  });
  report.nodes = raw.nodes.map((row) => ({ ...row, zone: row.zone ?? "", capacity: row.capacity ?? "", lost: usage(row.lost) }));
  report.zones = raw.zones.map((row) => ({ ...row, zone: "", capacity: "", lost: usage(row.lost) }));
  report.nearLimit = raw.nearLimit.map((uid) => report.byUid.get(uid)).filter(Boolean);
  report.series = merged(raw.series.map((one) => ({
    start: seconds(one.start), causes: one.causes, spot: usage(one.spot), onDemand: usage(one.onDemand), lost: usage(one.lost),
    lostTo: lostTo(one),
  })), raw.bucket, report);
  report.measures = measures(report);
  return report;
}

// At most 120 bars in a chart, whatever the report has: neighbours are added up.
const MOST_BARS = 120;
function merged(series, bucket, report) {
  const every = Math.ceil(series.length / MOST_BARS);
  report.bar = bucket * Math.max(1, every);
  if (every <= 1) return series;
  const found = [];
  for (let at = 0; at < series.length; at += every) found.push(series.slice(at, at + every).reduce(both));
  return found;
}

function both(a, b) {
  const causes = { ...a.causes };
  for (const [cause, number] of Object.entries(b.causes)) causes[cause] = (causes[cause] ?? 0) + number;
  const lostTo = Object.fromEntries(Object.keys(LOSSES).map((loss) => [loss, sum(a.lostTo[loss], b.lostTo[loss])]));
  return { start: a.start, causes, lostTo, spot: sum(a.spot, b.spot), onDemand: sum(a.onDemand, b.onDemand), lost: sum(a.lost, b.lost) };
}

function sum(a, b) {
  const resources = { ...a.resources };
  for (const [name, value] of Object.entries(b.resources)) resources[name] = (resources[name] ?? 0) + value;
  const unknown = (a.price === null && a.attempts > 0) || (b.price === null && b.attempts > 0);
  return {
    attempts: a.attempts + b.attempts, seconds: a.seconds + b.seconds, resources,
    price: unknown ? null : (a.price ?? 0) + (b.price ?? 0),
  };
}

// What the amounts can be shown in: money if the prices are known, then core-hours, then each other resource.
function measures(report) {
  const found = [];
  const { used } = report.total;
  if (report.currency && (used.price !== null || report.workloads.some((row) => row.figures.used.price !== null))) {
    const format = moneyIn(report.currency);
    found.push({ key: "price", label: `money (${report.currency})`, unit: report.currency, of: priceOf, format });
  }
  const names = new Set(["cpu", "memory", ...Object.keys(used.resources)]);
  for (const name of names) {
    const unit = { cpu: "core-hours", memory: "GiB-hours" }[name] ?? `${name} hours`;
    found.push({ key: name, label: unit, unit, of: (one) => (one.resources[name] ?? 0) / 3600, format: amount });
  }
  found.push({ key: "seconds", label: "pod-hours", unit: "pod-hours", of: (one) => one.seconds / 3600, format: amount });
  if (used.price === null && found[0].key === "price") found.push(found.shift()); // not all of it is known
  return found;
}

const priceOf = (one) => (one.price ?? (one.attempts === 0 ? 0 : null));
