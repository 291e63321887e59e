// Dates and the order of text for people, as V8 writes them (TZ=UTC unless a zone is given) or not at all; and `Intl`.
(function (native, host) {
  "use strict";
  const { hidden } = host;
  const { absent, tags, locale, supported, pick, refuse, NumberFormat, PluralRules } = host.intl;

  // ---- dates ---------------------------------------------------------------------------------------------------

  // In the order of the data's lists.
  const YEAR = [undefined, "numeric", "2-digit"], MONTH = [...YEAR, "short", "long"], WEEKDAY = [undefined, "short", "long"];
  const CYCLES = ["h11", "h12", "h23", "h24"], STYLES = [undefined, "full", "long", "medium", "short"];
  const TEXT = ["long", "short", "narrow"], DIGITS = ["numeric", "2-digit"];

  function dateOptions(api, options, needed, defaults) {
    options = options === undefined ? {} : options === null ? null : Object(options);
    if (options === null) throw new TypeError("Cannot convert undefined or null to object");
    refuse(api, options, { era: undefined, dayPeriod: undefined, fractionalSecondDigits: undefined, calendar: "gregory", numberingSystem: "latn" });
    const o = {
      weekday: pick(api, options, "weekday", TEXT), year: pick(api, options, "year", DIGITS),
      month: pick(api, options, "month", [...DIGITS, ...TEXT]), day: pick(api, options, "day", DIGITS),
      hour: pick(api, options, "hour", DIGITS), minute: pick(api, options, "minute", DIGITS), second: pick(api, options, "second", DIGITS),
      zone: pick(api, options, "timeZoneName", ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"]),
      place: zone(options.timeZone), api,
    };
    const hourCycle = pick(api, options, "hourCycle", CYCLES);
    o.cycle = options.hour12 !== undefined ? (options.hour12 ? 1 : 2) : hourCycle === undefined ? 0 : 3 + CYCLES.indexOf(hourCycle);
    for (const name of ["weekday", "month"]) if (o[name] === "narrow") throw absent(api, `the option ${name}: narrow`);
    if (o.zone !== undefined && o.zone !== "short" && o.zone !== "long") throw absent(api, `the option timeZoneName: ${o.zone}`);
    const dateStyle = pick(api, options, "dateStyle", STYLES.slice(1)), timeStyle = pick(api, options, "timeStyle", STYLES.slice(1));
    const fields = ["weekday", "year", "month", "day", "hour", "minute", "second", "zone"];
    if (dateStyle !== undefined || timeStyle !== undefined) {
      const set = fields.find((field) => o[field] !== undefined);
      if (set !== undefined) throw new TypeError(`Can't set option ${set === "zone" ? "timeZoneName" : set} when ${dateStyle ? "dateStyle" : "timeStyle"} is used`);
      if (timeStyle !== undefined && needed === "date") throw new TypeError("Invalid option : timeStyle");
      if (dateStyle !== undefined && needed === "time") throw new TypeError("Invalid option : dateStyle");
      if (o.cycle > 2) throw absent(api, "the option hourCycle with timeStyle");
      o.style = (STYLES.indexOf(dateStyle) * 5 + STYLES.indexOf(timeStyle)) * 3 + o.cycle;
      return o;
    }
    const date = ["weekday", "year", "month", "day"].some((field) => o[field] !== undefined);
    const time = ["hour", "minute", "second"].some((field) => o[field] !== undefined);
    const empty = needed === "date" ? !date : needed === "time" ? !time : !date && !time;
    if (empty && defaults !== "time") o.year = o.month = o.day = "numeric";
    if (empty && defaults !== "date") o.hour = o.minute = o.second = "numeric";
    return o;
  }

  const UTC = /^(utc|gmt|etc\/utc|etc\/gmt)$/i;
  // The canonical name, and the minutes ahead of UTC where that is all that is known of the zone.
  function zone(given) {
    if (given === undefined) return { name: "UTC", fixed: 0 };
    const name = String(given);
    if (UTC.test(name)) return { name: "UTC", fixed: 0 };
    const offset = /^([+-])([01]\d|2[0-3])(?::?([0-5]\d))?$/.exec(name);
    if (offset !== null) {
      const [, sign, hours, minutes = "00"] = offset;
      const fixed = (Number(hours) * 60 + Number(minutes)) * (sign === "-" ? -1 : 1);
      return { name: `${fixed === 0 ? "+" : sign}${hours}:${minutes}`, fixed };
    }
    const known = native.zoneName(name.toWellFormed());
    if (known === undefined) throw new RangeError(`Invalid time zone specified: ${name}`);
    return { name: known };
  }

  const two = (n) => String(n).padStart(2, "0");
  const TYPES = { y: "year", Y: "year", M: "month", N: "month", o: "month", d: "day", D: "day", w: "weekday", m: "minute", n: "minute",
    s: "second", t: "second", a: "dayPeriod", b: "dayPeriod", z: "timeZoneName", Z: "timeZoneName" };
  // One field of a pattern, by its letter in the data (see `scripts/locales.js`).
  function field(data, d, o, letter, list) {
    const h = d.getUTCHours();
    switch (letter) {
      case "y": return String(d.getUTCFullYear());
      case "Y": return two(d.getUTCFullYear() % 100);
      case "M": return String(d.getUTCMonth() + 1);
      case "N": return two(d.getUTCMonth() + 1);
      case "o": return data.months[list][d.getUTCMonth()];
      case "d": return String(d.getUTCDate());
      case "D": return two(d.getUTCDate());
      case "w": return data.weekdays[list][d.getUTCDay()];
      case "H": return String(h);
      case "I": return two(h);
      case "h": return String(h % 12 || 12);
      case "g": return two(h % 12 || 12);
      case "K": return String(h % 12);
      case "L": return two(h % 12);
      case "k": return String(h || 24);
      case "l": return two(h || 24);
      case "m": return String(d.getUTCMinutes());
      case "n": return two(d.getUTCMinutes());
      case "s": return String(d.getUTCSeconds());
      case "t": return two(d.getUTCSeconds());
      case "a": return data.halves[h < 12 ? 0 : 1];
      case "b": return data.periods[h];
      case "z": case "Z":
        if (o.place.name !== "UTC") throw absent(o.api, `the name of the time zone ${o.place.name}`);
        return data.utc[letter === "z" ? 0 : 1];
    }
  }

  function datePattern(data, o) {
    const get = (list, i) => {
      if (i < 0 || list[i] < 0) throw absent(o.api, `this choice of options in the locale ${data.tag}`);
      return data.patterns[list[i]];
    };
    if (o.style !== undefined) return get(data.style, o.style);
    const date = ((WEEKDAY.indexOf(o.weekday) * 3 + YEAR.indexOf(o.year)) * 5 + MONTH.indexOf(o.month)) * 3 + YEAR.indexOf(o.day);
    const time = ((YEAR.indexOf(o.hour) * 3 + YEAR.indexOf(o.minute)) * 3 + YEAR.indexOf(o.second)) * 7 + o.cycle;
    let pattern = time < 7 ? get(data.date, date) : get(data.time, time);
    if (date > 0 && time >= 7) pattern = get(data.date, date) + get(data.glue, date) + pattern;
    if (o.zone === undefined) return pattern;
    if (!/^en(-US)?$/.test(data.tag)) throw absent(o.api, `the option timeZoneName in the locale ${data.tag}`);
    return `${pattern}${time < 7 ? ", " : " "}${o.zone === "short" ? "{z}" : "{Z}"}`;
  }

  function dateParts(data, d, o) {
    const { fixed, name } = o.place;
    const offset = fixed !== undefined ? fixed * 60 : native.zoneOffset(name, d.getTime());
    const there = new RealDate(d.getTime() + (offset ?? NaN) * 1000);
    if (offset === undefined || there.getUTCFullYear() < 1 || there.getUTCFullYear() > 9999) throw absent(o.api, "a year before 1 or after 9999");
    const out = [];
    for (const [whole, letter, list, literal] of datePattern(data, o).matchAll(/\{(\w)(\d*)\}|([^{]+)/g)) {
      if (literal === undefined) out.push({ type: TYPES[letter] ?? "hour", value: field(data, there, o, letter, list) });
      else if (out.at(-1)?.type === "literal") out.at(-1).value += whole;
      else out.push({ type: "literal", value: whole });
    }
    return out;
  }
  const formatDate = (data, d, o) => (Number.isNaN(d.getTime()) ? "Invalid Date" : dateParts(data, d, o).map((p) => p.value).join(""));

  const RealDate = Date;
  const getTime = Date.prototype.getTime;
  for (const [name, needed, defaults] of [["toLocaleDateString", "date", "date"], ["toLocaleTimeString", "time", "time"], ["toLocaleString", "any", "all"]]) {
    const api = `Date.prototype.${name}`;
    hidden(Date.prototype, name, { [name](locales, options) {
      const d = new RealDate(getTime.call(this)), data = locale(api, locales);
      return formatDate(data, d, dateOptions(api, options, needed, defaults));
    } }[name]);
  }

  class DateTimeFormat {
    #data; #options;
    constructor(locales, options) {
      const api = "Intl.DateTimeFormat";
      this.#data = locale(api, locales);
      this.#options = dateOptions(api, options, "any", "date");
      datePattern(this.#data, this.#options);
      this.format = (date) => formatDate(this.#data, this.#date(date), this.#options);
    }
    #date(date) {
      const d = date === undefined ? new Date() : new Date(date);
      if (Number.isNaN(d.getTime())) throw new RangeError("Invalid time value");
      return d;
    }
    formatToParts(date) { return dateParts(this.#data, this.#date(date), this.#options); }
    resolvedOptions() {
      const { weekday, year, month, day, hour, minute, second, place } = this.#options;
      const given = { weekday, year, month, day, hour, minute, second };
      for (const key of Object.keys(given)) if (given[key] === undefined) delete given[key];
      return { locale: this.#data.tag, calendar: "gregory", numberingSystem: "latn", timeZone: place.name, ...given };
    }
    formatRange() { throw absent("Intl.DateTimeFormat", "formatRange"); }
    formatRangeToParts() { throw absent("Intl.DateTimeFormat", "formatRangeToParts"); }
    static supportedLocalesOf(locales) { return supported(locales); }
  }

  // ---- text ----------------------------------------------------------------------------------------------------

  function order(api, locales, options) {
    const tag = tags(locales)[0] ?? "en-US";
    if (/-u-/.test(tag)) throw absent(api, `the locale ${tag}`);
    const o = options === undefined ? {} : Object(options);
    refuse(api, o, { usage: "sort", collation: "default" });
    const sensitivity = pick(api, o, "sensitivity", ["base", "accent", "case", "variant"], "variant");
    const caseFirst = pick(api, o, "caseFirst", ["upper", "lower", "false"], "false");
    const flags = [o.numeric ? "numeric" : "", o.ignorePunctuation ? "punctuation" : "", caseFirst === "false" ? "" : caseFirst];
    if (/^th\b/.test(tag) && o.ignorePunctuation === undefined) throw absent(api, "the locale th without ignorePunctuation");
    return [tag, sensitivity, ...flags.filter((flag) => flag !== "")];
  }
  const compare = (how, a, b) => (a === b ? 0 : native.collate(how, a.toWellFormed(), b.toWellFormed()));
  hidden(String.prototype, "localeCompare", function localeCompare(that, locales, options) {
    if (this === undefined || this === null) throw new TypeError("String.prototype.localeCompare called on null or undefined");
    const a = String(this), b = String(that);
    return compare(order("String.prototype.localeCompare", locales, options), a, b);
  });
  for (const name of ["toLocaleUpperCase", "toLocaleLowerCase"]) {
    const plain = String.prototype[name.replace("Locale", "")];
    hidden(String.prototype, name, { [name](locales) {
      const tag = tags(locales)[0] ?? "en-US";
      // The languages whose letters V8 treats in their own way.
      if (!/^(tr|az|lt|el)\b/.test(tag)) return plain.call(this);
      if (this === undefined || this === null) throw new TypeError(`String.prototype.${name} called on null or undefined`);
      return native.changeCase(String(this).toWellFormed(), tag, name === "toLocaleUpperCase");
    } }[name]);
  }
  class Collator {
    #order;
    constructor(locales, options) {
      this.#order = order("Intl.Collator", locales, options);
      this.compare = (a, b) => compare(this.#order, String(a), String(b));
    }
    resolvedOptions() {
      const [tag, sensitivity, ...flags] = this.#order;
      const caseFirst = flags.find((flag) => flag === "upper" || flag === "lower") ?? "false";
      return { locale: tag, usage: "sort", sensitivity, ignorePunctuation: flags.includes("punctuation"), collation: "default",
        numeric: flags.includes("numeric"), caseFirst };
    }
  }

  // ---- Intl ----------------------------------------------------------------------------------------------------

  const callable = (Class) => new Proxy(Class, { apply: (target, self, values) => new target(...values) });
  class ListFormat {
    #last;
    constructor(locales, options = {}) {
      if (!/^en(-US)?$/.test(tags(locales)[0] ?? "en")) throw absent("Intl.ListFormat", `the locale ${tags(locales)[0]}`);
      const o = Object(options);
      if (pick("Intl.ListFormat", o, "style", ["long", "short", "narrow"], "long") !== "long") throw absent("Intl.ListFormat", `the option style: ${o.style}`);
      const type = pick("Intl.ListFormat", o, "type", ["conjunction", "disjunction", "unit"], "conjunction");
      if (type === "unit") throw absent("Intl.ListFormat", "the option type: unit");
      this.#last = type === "conjunction" ? "and" : "or";
    }
    format(items) {
      const list = Array.from(items, (item) => { if (typeof item !== "string") throw new TypeError("Iterable yielded a non-String value"); return item; });
      if (list.length < 3) return list.join(` ${this.#last} `);
      return `${list.slice(0, -1).join(", ")}, ${this.#last} ${list.at(-1)}`;
    }
  }
  const Intl = { NumberFormat: callable(NumberFormat), DateTimeFormat: callable(DateTimeFormat), Collator: callable(Collator), PluralRules, ListFormat };
  for (const name of ["RelativeTimeFormat", "DisplayNames", "Segmenter", "DurationFormat", "Locale"]) {
    Intl[name] = class { constructor() { throw absent(`Intl.${name}`, "it"); } };
  }
  Intl.getCanonicalLocales = (locales) => [...new Set(tags(locales))];
  Intl.supportedValuesOf = () => { throw absent("Intl.supportedValuesOf", "it"); };
  for (const name of Object.keys(Intl)) hidden(Intl, name, Intl[name]);
  Object.defineProperty(Intl, Symbol.toStringTag, { value: "Intl", configurable: true });
  hidden(globalThis, "Intl", Intl);
})
