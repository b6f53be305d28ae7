// The report as the views read it. Fields that the report leaves out have their defaults here.

const NO_USAGE = { attempts: 0, seconds: 0, resources: {}, price: 0 };
const usage = (used) => ({ attempts: 0, seconds: 0, price: null, ...used, resources: used?.resources ?? {} });

function withUsages(figures) {
  return {
    ...figures, used: usage(figures.used), spot: usage(figures.spot), onDemand: usage(figures.onDemand), lost: usage(figures.lost), lostTo: lostTo(figures),
    savedRetries: usage(figures.savedRetries), kept: usage(figures.kept),
  };
}

const lostTo = (figures) => Object.fromEntries(Object.keys(LOSSES).map((loss) => [loss, figures.lostTo?.[loss] ? usage(figures.lostTo[loss]) : NO_USAGE]));

function prepare(raw) {
  if (raw?.version !== 1) throw new Error(`This page shows reports of version 1; this one has version ${raw?.version}.`);
  const report = { ...raw, total: withUsages(raw.total) };
  report.byUid = new Map();
  report.at = seconds(raw.written);
  report.namespaces = raw.namespaces.map((group) => ({ ...group, figures: withUsages(group.figures) }));
  report.profiles = raw.profiles.map((group) => ({ ...group, figures: withUsages(group.figures) }));
  report.workloads = raw.workloads.map((workload) => {
    workload.text = `${workload.namespace}/${workload.name} ${workload.kind} ${workload.owner} ${workload.reason}`.toLowerCase();
    const shown = { ...workload, figures: withUsages(workload.figures) };
    report.byUid.set(workload.uid, shown);
    return shown;
  });
  report.nodes = raw.nodes.map((place) => ({ ...place, lost: usage(place.lost) }));
  report.zones = raw.zones.map((place) => ({ ...place, lost: usage(place.lost) }));
  report.nearLimit = raw.nearLimit.map((uid) => report.byUid.get(uid)).filter(Boolean);
  report.series = merged(raw.series.map((bucket) => ({
    start: seconds(bucket.start), causes: bucket.causes, spot: usage(bucket.spot), onDemand: usage(bucket.onDemand), lost: usage(bucket.lost),
    lostTo: lostTo(bucket),
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

function both(bucket, next) {
  const causes = { ...bucket.causes };
  for (const [cause, number] of Object.entries(next.causes)) causes[cause] = (causes[cause] ?? 0) + number;
  const lostTo = Object.fromEntries(Object.keys(LOSSES).map((loss) => [loss, sum(bucket.lostTo[loss], next.lostTo[loss])]));
  return { start: bucket.start, causes, lostTo, spot: sum(bucket.spot, next.spot), onDemand: sum(bucket.onDemand, next.onDemand), lost: sum(bucket.lost, next.lost) };
}

function sum(used, added) {
  const resources = { ...used.resources };
  for (const [name, value] of Object.entries(added.resources)) resources[name] = (resources[name] ?? 0) + value;
  const unknown = (used.price === null && used.attempts > 0) || (added.price === null && added.attempts > 0);
  return {
    attempts: used.attempts + added.attempts, seconds: used.seconds + added.seconds, resources,
    price: unknown ? null : (used.price ?? 0) + (added.price ?? 0),
  };
}

// What the amounts can be shown in: money if the prices are known, then core-hours, then each other resource.
function measures(report) {
  const found = [];
  const { used } = report.total;
  if (report.currency && (used.price !== null || report.workloads.some((workload) => workload.figures.used.price !== null))) {
    const format = moneyIn(report.currency);
    found.push({ key: "price", label: `money (${report.currency})`, unit: report.currency, of: priceOf, format });
  }
  const names = new Set(["cpu", "memory", ...Object.keys(used.resources)]);
  for (const name of names) {
    const unit = { cpu: "core-hours", memory: "GiB-hours" }[name] ?? `${name} hours`;
    found.push({ key: name, label: unit, unit, of: (used) => (used.resources[name] ?? 0) / 3600, format: amount });
  }
  found.push({ key: "seconds", label: "pod-hours", unit: "pod-hours", of: (used) => used.seconds / 3600, format: amount });
  if (used.price === null && found[0].key === "price") found.push(found.shift()); // not all of it is known
  return found;
}

const priceOf = (used) => (used.price ?? (used.attempts === 0 ? 0 : null));
