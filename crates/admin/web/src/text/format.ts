// Numbers, spans and instants as text: one form of each in the whole page.

const GROUPED = new Intl.NumberFormat("en-US");
const NONE = "–";

/** Formats a whole number with separators: 12,408. */
export function count(value: number | null | undefined): string {
  return value == null ? NONE : GROUPED.format(Math.round(value));
}

/** Formats a number for a narrow place: 2.9k. */
export function short(value: number): string {
  if (value < 1000) return String(value);
  if (value < 999_500) return trim(value / 1000) + "k";
  return trim(value / 1_000_000) + "M";
}

function trim(value: number): string {
  return value < 100 ? value.toFixed(1) : String(Math.round(value));
}

/** Formats a measured rate without its unit: 0.02, 6.0, 1,250. */
export function perSecond(value: number | null | undefined): string {
  if (value == null) return NONE;
  if (value >= 100) return count(value);
  if (value > 0 && value < 0.095) return value.toFixed(2);
  return value.toFixed(1);
}

/** Formats a limit's number: as few decimals as it needs. */
export function limitNumber(value: number): string {
  if (value >= 100) return count(value);
  return String(Number(value.toFixed(value < 10 ? 2 : 1)));
}

/** Adds separators to the numbers of a rate text: 90,000/min. */
export function rateText(text: string): string {
  return text.replace(/\d{4,}/g, (digits) => (digits.length < 5 ? digits : GROUPED.format(Number(digits))));
}

/** Formats a share without its unit: 3.1. */
export function percent(ppm: number | null | undefined, decimals = 1): string {
  return ppm == null ? NONE : (ppm / 10_000).toFixed(decimals);
}

/** Formats a part of a whole as a percentage without its unit. */
export function share(part: number, whole: number): string {
  if (whole <= 0) return "0";
  const value = (part / whole) * 100;
  return value > 0 && value < 10 && value !== Math.round(value) ? value.toFixed(1) : value.toFixed(0);
}

/** Value and unit of a span, for places that set the unit apart. */
export interface SpanParts {
  value: string;
  unit: string;
}

/** Splits a short span into value and unit; a long one is all value. */
export function spanParts(ms: number | null | undefined): SpanParts {
  if (ms == null) return { value: NONE, unit: "" };
  const ahead = Math.max(0, ms);
  if (ahead < 999.5) return { value: String(Math.round(ahead)), unit: "ms" };
  const seconds = ahead / 1000;
  if (seconds < 9.95) return { value: seconds.toFixed(1), unit: "s" };
  if (seconds < 59.5) return { value: String(Math.round(seconds)), unit: "s" };
  return { value: longSpan(Math.round(seconds)), unit: "" };
}

/** Formats a span: 86 ms, 7.7 s, 5 min 12 s, 3 h 12 min, 2 d 4 h. */
export function span(ms: number | null | undefined): string {
  const { value, unit } = spanParts(ms);
  return unit ? `${value} ${unit}` : value;
}

/** Formats a span where its digits matter: 5.02 s. */
export function exactSpan(ms: number | null | undefined): string {
  return ms == null || ms < 999.5 || ms >= 99_995 ? span(ms) : `${(ms / 1000).toFixed(2)} s`;
}

function longSpan(seconds: number): string {
  const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86_400)];
  if (minutes < 60) return two(minutes, "min", seconds % 60, "s");
  if (hours < 24) return two(hours, "h", minutes % 60, "min");
  return two(days, "d", hours % 24, "h");
}

function two(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}

const pad = (value: number): string => String(value).padStart(2, "0");

/** Formats an instant of today as 11:04:18, of another day with its date. */
export function clock(at: number, now = Date.now()): string {
  const date = new Date(at);
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return isSameDay(date, new Date(now)) ? time : `${day(date)} ${time.slice(0, 5)}`;
}

/** Formats an instant as 11:04. */
export function minute(at: number, now = at): string {
  const date = new Date(at);
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  return isSameDay(date, new Date(now)) ? time : `${day(date)} ${time}`;
}

/** Formats an instant with milliseconds. */
export function precise(at: number): string {
  const date = new Date(at);
  const millis = String(date.getMilliseconds()).padStart(3, "0");
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${millis}`;
}

function day(date: Date): string {
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

function isSameDay(one: Date, other: Date): boolean {
  return one.toDateString() === other.toDateString();
}

/** Formats an age: now, 0.4 s ago, 3 min ago. */
export function ago(ms: number): string {
  return ms < 150 ? "now" : `${span(ms < 120_000 ? ms : ms - (ms % 60_000))} ago`;
}

/** Formats a size: 57 bytes, 17 MB. */
export function bytes(value: number): string {
  if (value < 1000) return `${value} bytes`;
  if (value < 1_000_000) return `${trim(value / 1000)} kB`;
  return `${value < 10_000_000 ? (value / 1_000_000).toFixed(1) : Math.round(value / 1_000_000)} MB`;
}

/** Joins a number and its noun: 1 job, 2 jobs. */
export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** Writes the first letter large. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
