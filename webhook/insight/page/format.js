// Numbers, times and the words of causes.

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY = 86400;

// ENDS, LOSSES and COSTS are the tables of webhook/policy/. Each end and loss has one colour in the whole page: the class c-KEY. `letter` says it without colour.
const CAUSES = {
  ...ENDS,
  Capacity: { label: LOSSES.Capacity.label, letter: "C", isLost: true },
  Running: { label: "Running", letter: "R", isLost: false },
};
const CAPACITIES = { Spot: "spot", OnDemand: "on-demand", "": "" };

const count = (number) => NUMBER.format(number);
const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
const percent = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(part / whole < 0.1 ? 1 : 0)} %` : "–");

function causeOf(attempt) {
  if (!attempt.cause) return "Running";
  if (attempt.cause === "Disruption" && attempt.reason === "SpotUnavailable") return "Capacity";
  return Object.hasOwn(CAUSES, attempt.cause) ? attempt.cause : "Other";
}

// A number that is expected by chance, as a person would say it.
const about = (number) => (number < 0.5 ? "none" : `about ${count(number)}`);

const isLost = (attempt) => Boolean(attempt.cause) && CAUSES[causeOf(attempt)].isLost;

function moneyIn(currency) {
  try {
    const coarse = new Intl.NumberFormat("en", { style: "currency", currency, maximumFractionDigits: 0 });
    const fine = new Intl.NumberFormat("en", { style: "currency", currency });
    return (value) => (value > 0 && value < 0.01 ? `< ${fine.format(0.01)}` : (Math.abs(value) >= 1e4 ? coarse : fine).format(value));
  } catch {
    return (value) => `${amount(value)} ${currency}`.trim(); // no currency of ISO 4217
  }
}

function amount(value) {
  if (value > 0 && value < 0.01) return "< 0.01";
  const digits = value >= 1000 || value === 0 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function duration(seconds) {
  if (seconds < 1) return seconds > 0 ? "< 1 s" : "0 s";
  const parts = [[DAY, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  let rest = Math.round(seconds);
  const found = [];
  for (const [size, unit] of parts) {
    if (rest >= size && found.length < 2) found.push(`${Math.floor(rest / size)} ${unit}`);
    else if (found.length) break;
    rest %= size;
  }
  return found.join(" ");
}

const seconds = (text) => (text ? Date.parse(text) / 1000 : NaN);
const two = (number) => String(number).padStart(2, "0");

// Times are in UTC, as kubectl prints them.
function time(at, { date = true, exact = false } = {}) {
  if (!Number.isFinite(at)) return "–";
  const when = new Date(at * 1000);
  const clock = `${two(when.getUTCHours())}:${two(when.getUTCMinutes())}${exact ? `:${two(when.getUTCSeconds())}` : ""}`;
  return date ? `${when.getUTCDate()} ${MONTHS[when.getUTCMonth()]} ${clock}` : clock;
}

function dateOf(at) {
  if (!Number.isFinite(at)) return "";
  const when = new Date(at * 1000);
  return `${when.getUTCDate()} ${MONTHS[when.getUTCMonth()]} ${when.getUTCFullYear()} ${two(when.getUTCHours())}:${two(when.getUTCMinutes())}`;
}

// Marks of a time axis: at most `most`, at round times.
function timeMarks(from, to, most) {
  const steps = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY, 2 * DAY, 3 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 365 * DAY];
  const step = steps.find((one) => (to - from) / one <= most) ?? (to - from) / most;
  const marks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const when = new Date(at * 1000);
    const day = `${when.getUTCDate()} ${MONTHS[when.getUTCMonth()]}`;
    marks.push({ at, label: step >= DAY ? day : at % DAY === 0 ? day : time(at, { date: false, exact: step < 60 }) });
  }
  return marks;
}

// Marks of a value axis: about four, at round values from 0 on; `whole`: at whole numbers.
function valueMarks(highest, { whole = false } = {}) {
  const rough = Math.max(highest / 4, whole ? 1 : 0) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, whole && power < 10 ? 3 : 2.5, 5, 10].find((one) => one * power >= rough);
  const marks = [];
  for (let at = 0; at < highest + step * 0.999; at += step) marks.push(Number(at.toPrecision(12)));
  return marks;
}
