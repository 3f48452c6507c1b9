// Numbers and times as people read them. What is not known is the dash.

export const unknown = '–';

const known = (v) => typeof v === 'number' && Number.isFinite(v);

// seconds writes a duration with three digits: 85.3 ms, 1.23 s.
export function seconds(v) {
  if (!known(v)) return unknown;
  if (v < 0.9995) return `${threeDigits(v * 1e3)} ms`;
  if (v < 3600) return `${threeDigits(v)} s`;
  return age(v);
}

function threeDigits(v) {
  if (v >= 99.95) return String(Math.round(v));
  if (v < 0.001) return '0';
  return v.toFixed(v < 0.9995 ? 3 : v < 9.995 ? 2 : 1);
}

// age writes a long duration in its greatest units.
export function age(v) {
  const whole = Math.max(0, Math.floor(v));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole % 86400 / 3600)} h`;
}

// ratio writes a share of 1 in percent.
export function ratio(v) {
  return known(v) ? `${(v * 100).toFixed(v > 0 && v < 0.0995 ? 1 : 0)} %` : unknown;
}

// number writes a count or any other value without a unit.
export function number(v) {
  if (!known(v)) return unknown;
  if (Number.isInteger(v)) return v.toLocaleString('en');
  return Math.abs(v) >= 1000 ? Math.round(v).toLocaleString('en') : String(Number(v.toPrecision(4)));
}

// bytes writes a size in binary units.
export function bytes(v) {
  if (!known(v)) return unknown;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; v >= 1024 && unit < units.length - 1; unit++) v /= 1024;
  return `${unit === 0 ? v : v.toFixed(v < 99.95 ? 1 : 0)} ${units[unit]}`;
}

// timeOfDay writes the time of day of a moment, without the seconds unless they are
// wanted; a moment of another day than today with its day. All times of the page are in
// UTC, as those in the texts of the exporter, its log and its alerts are.
export function timeOfDay(at, withSeconds = true) {
  const [day, time] = new Date(at * 1000).toISOString().split('T');
  const today = new Date().toISOString().startsWith(day);
  return `${today ? '' : `${day.slice(5)} `}${time.slice(0, withSeconds ? 8 : 5)}`;
}

// clockTime writes a moment to the second, hourMinute to the minute.
export const clockTime = (at) => (known(at) ? `${timeOfDay(at)} UTC` : unknown);
export const hourMinute = (at) => (known(at) ? `${timeOfDay(at, false)} UTC` : unknown);

// share writes a share near 1 with the digits that matter: 99.95 %.
export function share(v) {
  if (!known(v)) return unknown;
  return v === 1 || v === 0 ? `${v * 100} %` : `${(v * 100).toFixed(2)} %`;
}

// dollars writes an amount of US dollars with two digits that are not 0.
export function dollars(v) {
  if (!known(v)) return unknown;
  return `$ ${v >= 0.1 || v === 0 ? v.toFixed(2) : v.toLocaleString('en', { maximumSignificantDigits: 2, maximumFractionDigits: 20 })}`;
}

// exactTime writes a moment to the second with its day, in UTC and in the reader's zone.
export function exactTime(at) {
  if (!known(at)) return '';
  const moment = new Date(at * 1000);
  const utc = `${moment.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
  return moment.getTimezoneOffset() === 0 ? utc : `${utc}, ${moment.toLocaleString('en-GB', { timeZoneName: 'short' })}`;
}

// plural writes a count with its noun.
export function plural(n, noun) {
  return `${number(n)} ${noun}${n === 1 ? '' : 's'}`;
}
