// Numbers and dates for people, in English and UTC. The engine ignores locale and time zone arguments, which would be
// wrong in silence; here each is right (as in Node, en-US, TZ=UTC) or throws a TypeError that names what is missing.
(function (native, host) {
  "use strict";
  const { hidden } = host;
  const OUT = "only en-US and the time zone UTC are available here; format it yourself";
  const absent = (api, what) => new TypeError(`${api}: ${what} is not available (${OUT})`);

  function checkLocale(api, locales) {
    const list = locales === undefined ? [] : typeof locales === "string" ? [locales] : Array.from(locales, String);
    for (const locale of list) {
      if (!/^[a-z]{2,8}([-_][a-z0-9]{1,8})*$/i.test(locale)) throw new RangeError(`Incorrect locale information provided`);
    }
    const first = list[0] ?? "en-US";
    if (!/^en(-US)?(-u-ca-gregory|-u-nu-latn)*$/i.test(first)) throw absent(api, `the locale ${first}`);
    return /^en$/i.test(first) ? "en" : "en-US";
  }

  function pick(api, options, name, values, fallback) {
    const value = options[name];
    if (value === undefined) return fallback;
    const text = String(value);
    if (!values.includes(text)) throw new RangeError(`Value ${text} out of range for ${api} options property ${name}`);
    return text;
  }

  function refuse(api, options, names) {
    for (const name of Object.keys(names)) {
      const value = options[name];
      if (value !== undefined && String(value) !== names[name]) throw absent(api, `the option ${name}: ${String(value)}`);
    }
  }

  // ---- numbers -------------------------------------------------------------------------------------------------

  const CURRENCIES = {
    __proto__: null, USD: ["$", 2], EUR: ["€", 2], GBP: ["£", 2], JPY: ["¥", 0], CNY: ["CN¥", 2], INR: ["₹", 2],
    KRW: ["₩", 0], CAD: ["CA$", 2], AUD: ["A$", 2], MXN: ["MX$", 2], BRL: ["R$", 2], NZD: ["NZ$", 2], HKD: ["HK$", 2],
    ILS: ["₪", 2], VND: ["₫", 0], TWD: ["NT$", 2],
  };

  function numberOptions(api, options = {}) {
    if (options === null) throw new TypeError("Cannot convert undefined or null to object");
    options = Object(options);
    refuse(api, options, {
      notation: "standard", unit: undefined, numberingSystem: "latn", currencySign: "standard", roundingMode: "halfExpand",
      roundingIncrement: "1", trailingZeroDisplay: "auto", roundingPriority: "auto",
    });
    const style = pick(api, options, "style", ["decimal", "percent", "currency", "unit"], "decimal");
    if (style === "unit") throw absent(api, "the option style: unit");
    let symbol = "", digits = 0;
    if (style === "currency") {
      if (options.currency === undefined) throw new TypeError("Currency code is required with currency style.");
      const code = String(options.currency).toUpperCase();
      if (!/^[A-Z]{3}$/.test(code)) throw new RangeError(`Invalid currency code : ${options.currency}`);
      if (!(code in CURRENCIES)) throw absent(api, `the currency ${code}`);
      [symbol, digits] = CURRENCIES[code];
      const display = pick(api, options, "currencyDisplay", ["symbol", "narrowSymbol", "code", "name"], "symbol");
      if (display === "name") throw absent(api, "the option currencyDisplay: name");
      if (display === "narrowSymbol") symbol = symbol.replace(/^[A-Z]+(?=[^A-Z])/, "");
      if (display === "code") symbol = `${code}\u00a0`;
    }
    const count = (name, low, high) => {
      const value = options[name];
      if (value === undefined) return undefined;
      const n = Math.floor(Number(value));
      if (!(Number(value) >= low && Number(value) <= high)) throw new RangeError(`${name} value is out of range.`);
      return n;
    };
    const integers = count("minimumIntegerDigits", 1, 21) ?? 1;
    let least = count("minimumFractionDigits", 0, 100), most = count("maximumFractionDigits", 0, 100);
    const usualLeast = style === "currency" ? digits : 0;
    const usualMost = style === "currency" ? digits : style === "percent" ? 0 : 3;
    if (least === undefined) least = most === undefined ? usualLeast : Math.min(usualLeast, most);
    else if (most === undefined) most = Math.max(usualMost, least);
    if (most === undefined) most = Math.max(usualMost, least);
    if (least > most) throw new RangeError("maximumFractionDigits value is out of range.");
    const leastSignificant = count("minimumSignificantDigits", 1, 21), mostSignificant = count("maximumSignificantDigits", 1, 21);
    const significant = leastSignificant === undefined && mostSignificant === undefined ? undefined
      : [leastSignificant ?? 1, mostSignificant ?? 21];
    if (significant && significant[0] > significant[1]) throw new RangeError("maximumSignificantDigits value is out of range.");
    const grouping = options.useGrouping;
    if (grouping !== undefined && !["true", "false", "always", "auto", "min2"].includes(String(grouping))) {
      throw new RangeError(`Value ${grouping} out of range for ${api} options property useGrouping`);
    }
    const sign = pick(api, options, "signDisplay", ["auto", "never", "always", "exceptZero", "negative"], "auto");
    return { style, symbol, integers, least, most, significant, sign, currency: options.currency,
      group: grouping === undefined || String(grouping) === "true" ? "auto" : String(grouping) };
  }

  // Digits and the place of the point: value = 0.DIGITS × 10^point. The shortest text of a Number is what gets rounded.
  function decimal(text) {
    const [, whole, fraction = "", exponent = "0"] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(text);
    const all = whole + fraction;
    const zeros = /^0*/.exec(all)[0].length;
    return { digits: all.slice(zeros), point: whole.length - zeros + Number(exponent) };
  }

  // Keeps `keep` digits (it may be negative or beyond the end), half away from zero.
  function round(number, keep) {
    if (keep >= number.digits.length) return number;
    if (keep < 0) return { digits: "", point: 0 };
    const up = number.digits.charCodeAt(keep) >= 53;
    let digits = number.digits.slice(0, keep), point = number.point;
    if (up) {
      const more = String(BigInt(`1${digits}`) + 1n);
      if (more[0] === "2") { digits = `1${"0".repeat(keep)}`; point += 1; } else digits = more.slice(1);
      if (keep === 0) { digits = "1"; }
    }
    return { digits, point };
  }

  function formatNumber(value, o) {
    let negative, body;
    if (typeof value === "bigint") {
      negative = value < 0n;
      body = decimal(String(negative ? -value : value));
    } else {
      const x = Number(value);
      negative = x < 0 || Object.is(x, -0);
      body = Number.isNaN(x) ? "NaN" : Math.abs(x) === Infinity ? "∞" : decimal(String(Math.abs(x)));
    }
    let zero = false;
    if (typeof body !== "string") {
      if (o.style === "percent") body.point += 2;
      if (body.digits === "") body.point = 0;
      let least = o.least;
      if (o.significant) {
        body = round(body, o.significant[1]);
        least = Math.max(0, o.significant[0] - (body.digits === "" ? 1 : body.point));
      } else {
        body = round(body, body.point + o.most);
      }
      const stripped = body.digits.replace(/0+$/, "");
      zero = stripped === "";
      const whole = zero || body.point <= 0 ? "" : stripped.slice(0, body.point).padEnd(body.point, "0");
      let fraction = zero ? "" : body.point <= 0 ? "0".repeat(-body.point) + stripped : stripped.slice(body.point);
      fraction = fraction.padEnd(least, "0");
      let integers = whole.padStart(o.integers, "0");
      const grouped = o.group === "auto" || o.group === "always" || (o.group === "min2" && integers.length > 4);
      if (grouped) integers = integers.replace(/\B(?=(\d{3})+$)/g, ",");
      body = fraction === "" ? integers : `${integers}.${fraction}`;
    } else if (body === "NaN") {
      negative = false;
    }
    const sign = {
      auto: negative ? "-" : "", never: "", always: negative ? "-" : "+",
      exceptZero: zero || body === "NaN" ? "" : negative ? "-" : "+", negative: negative && !zero ? "-" : "",
    }[o.sign];
    const symbol = /[0-9]/.test(body) ? o.symbol : o.symbol.trimEnd();
    return `${sign}${symbol}${body}${o.style === "percent" ? "%" : ""}`;
  }

  const valueOfNumber = Number.prototype.valueOf, valueOfBig = BigInt.prototype.valueOf;
  hidden(Number.prototype, "toLocaleString", function toLocaleString(locales, options) {
    const value = valueOfNumber.call(this);
    checkLocale("Number.prototype.toLocaleString", locales);
    return formatNumber(value, numberOptions("Number.prototype.toLocaleString", options));
  });
  hidden(BigInt.prototype, "toLocaleString", function toLocaleString(locales, options) {
    const value = valueOfBig.call(this);
    checkLocale("BigInt.prototype.toLocaleString", locales);
    return formatNumber(value, numberOptions("BigInt.prototype.toLocaleString", options));
  });

  // ---- dates ---------------------------------------------------------------------------------------------------

  const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
  const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
  const TEXT = ["long", "short", "narrow"], DIGITS = ["numeric", "2-digit"];

  function dateOptions(api, options, needed, defaults) {
    options = options === undefined ? {} : options === null ? null : Object(options);
    if (options === null) throw new TypeError("Cannot convert undefined or null to object");
    refuse(api, options, { era: undefined, dayPeriod: undefined, fractionalSecondDigits: undefined, calendar: "gregory", numberingSystem: "latn" });
    const zone = options.timeZone;
    if (zone !== undefined && !/^(utc|gmt|etc\/utc|etc\/gmt|[+-]00:?00)$/i.test(String(zone))) throw absent(api, `the time zone ${zone}`);
    const o = {
      weekday: pick(api, options, "weekday", TEXT), year: pick(api, options, "year", DIGITS),
      month: pick(api, options, "month", [...DIGITS, ...TEXT]), day: pick(api, options, "day", DIGITS),
      hour: pick(api, options, "hour", DIGITS), minute: pick(api, options, "minute", DIGITS), second: pick(api, options, "second", DIGITS),
      zone: pick(api, options, "timeZoneName", ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"]),
      cycle: pick(api, options, "hourCycle", ["h11", "h12", "h23", "h24"], "h12"),
    };
    if (o.zone !== undefined && o.zone !== "short" && o.zone !== "long") throw absent(api, `the option timeZoneName: ${o.zone}`);
    if (options.hour12 !== undefined) o.cycle = options.hour12 ? "h12" : "h24";
    const STYLES = ["full", "long", "medium", "short"];
    const dateStyle = pick(api, options, "dateStyle", STYLES), timeStyle = pick(api, options, "timeStyle", STYLES);
    const fields = ["weekday", "year", "month", "day", "hour", "minute", "second", "zone"];
    if (dateStyle !== undefined || timeStyle !== undefined) {
      const set = fields.find((field) => o[field] !== undefined);
      if (set !== undefined) throw new TypeError(`Can't set option ${set === "zone" ? "timeZoneName" : set} when ${dateStyle ? "dateStyle" : "timeStyle"} is used`);
      if (timeStyle !== undefined && needed === "date") throw new TypeError("Invalid option : timeStyle");
      if (dateStyle !== undefined && needed === "time") throw new TypeError("Invalid option : dateStyle");
      if (dateStyle === "full") o.weekday = "long";
      if (dateStyle !== undefined) {
        o.month = { full: "long", long: "long", medium: "short", short: "numeric" }[dateStyle];
        o.day = "numeric";
        o.year = dateStyle === "short" ? "2-digit" : "numeric";
      }
      if (timeStyle !== undefined) {
        o.hour = "numeric";
        o.minute = "2-digit";
        if (timeStyle !== "short") o.second = "2-digit";
        if (timeStyle === "long") o.zone = "short";
        if (timeStyle === "full") o.zone = "long";
      }
      return o;
    }
    const date = ["weekday", "year", "month", "day"].some((field) => o[field] !== undefined);
    const time = ["hour", "minute", "second"].some((field) => o[field] !== undefined);
    const empty = needed === "date" ? !date : needed === "time" ? !time : !date && !time;
    if (empty && defaults !== "time") o.year = o.month = o.day = "numeric";
    if (empty && defaults !== "date") { o.hour = "numeric"; o.minute = o.second = "2-digit"; }
    return o;
  }

  const two = (n) => String(n).padStart(2, "0");
  const word = (names, n, form) => (form === "long" ? names[n] : names[n].slice(0, form === "short" ? 3 : 1));

  function datePart(api, d, o) {
    const { weekday, year, month, day } = o;
    const w = weekday && word(WEEKDAYS, d.getUTCDay(), weekday);
    const y = year && (year === "numeric" ? String(d.getUTCFullYear()) : two(d.getUTCFullYear() % 100));
    const n = day && (day === "numeric" ? String(d.getUTCDate()) : two(d.getUTCDate()));
    if (year && d.getUTCFullYear() < 1) throw absent(api, "a year before 1");
    if (!month) {
      if (y && n) throw absent(api, "year and day without month");
      if (y && w && year === "2-digit") throw absent(api, "weekday and a year of two digits alone");
      return [y ?? n, w].filter(Boolean).join(" ");
    }
    if (w && !n && !y) throw absent(api, "weekday and month alone");
    let rest;
    if (TEXT.includes(month)) {
      const m = word(MONTHS, d.getUTCMonth(), month);
      rest = (n ? `${m} ${n}` : m) + (y ? `${n ? "," : ""} ${y}` : "");
    } else {
      const m = month === "numeric" ? String(d.getUTCMonth() + 1) : two(d.getUTCMonth() + 1);
      rest = [m, n, y].filter(Boolean).join("/");
    }
    return w ? (n ? `${w}, ${rest}` : `${rest} ${w}`) : rest;
  }

  function timePart(api, d, o) {
    const { hour, minute, second, cycle } = o;
    if (hour && second && !minute) throw absent(api, "hour and second without minute");
    const tail = [];
    if (minute) tail.push(hour || second ? two(d.getUTCMinutes()) : String(d.getUTCMinutes()));
    if (second) tail.push(minute ? two(d.getUTCSeconds()) : String(d.getUTCSeconds()));
    if (!hour) return tail.join(":");
    const h = d.getUTCHours(), half = cycle === "h12" || cycle === "h11";
    const shown = { h11: h % 12, h12: h % 12 || 12, h23: h, h24: h || 24 }[cycle];
    const first = hour === "2-digit" || !half ? two(shown) : String(shown);
    return [first, ...tail].join(":") + (half ? (h < 12 ? " AM" : " PM") : "");
  }

  function formatDate(api, d, o) {
    if (Number.isNaN(d.getTime())) return "Invalid Date";
    const date = o.weekday || o.year || o.month || o.day ? datePart(api, d, o) : "";
    const time = [o.hour || o.minute || o.second ? timePart(api, d, o) : "",
      o.zone === "short" ? "UTC" : o.zone === "long" ? "Coordinated Universal Time" : ""].filter(Boolean).join(" ");
    if (!date || !time) return date || time;
    if (o.month === "long") return `${date} at ${time}`;
    const alone = o.weekday && !o.year && !o.month && !o.day && o.hour && !o.zone;
    return date + (alone ? " " : ", ") + time;
  }

  const RealDate = Date;
  const getTime = Date.prototype.getTime;
  for (const [name, needed, defaults] of [["toLocaleDateString", "date", "date"], ["toLocaleTimeString", "time", "time"], ["toLocaleString", "any", "all"]]) {
    const api = `Date.prototype.${name}`;
    hidden(Date.prototype, name, { [name](locales, options) {
      const d = new RealDate(getTime.call(this));
      checkLocale(api, locales);
      return formatDate(api, d, dateOptions(api, options, needed, defaults));
    } }[name]);
  }

  // ---- text ----------------------------------------------------------------------------------------------------

  // The order of printable ASCII in the Unicode collation.
  const ORDER = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz";
  const plainText = /^[ -~]*$/;
  function checkCollation(api, locales, options) {
    const first = locales === undefined ? "en" : String(typeof locales === "string" ? locales : (Array.from(locales)[0] ?? "en"));
    if (!/^en(-[A-Z]{2})?$/i.test(first)) throw absent(api, `the locale ${first}`);
    const o = options === undefined ? {} : Object(options);
    refuse(api, o, { usage: "sort", ignorePunctuation: "false", caseFirst: "false", collation: "default" });
    return { numeric: Boolean(o.numeric), sensitivity: pick(api, o, "sensitivity", ["base", "accent", "case", "variant"], "variant") };
  }
  // By letter first; lower case before upper only where nothing else differs.
  function collate(api, a, b, o) {
    if (a === b) return 0;
    if (!plainText.test(a) || !plainText.test(b)) {
      throw new TypeError(`${api}: only ASCII text can be compared here; compare with < and > (by code point), or map the text first`);
    }
    const split = (s) => (o.numeric ? s.match(/\d+|\D/g) ?? [] : [...s]);
    const left = split(a), right = split(b);
    for (let i = 0; i < Math.min(left.length, right.length); i++) {
      const x = left[i].toLowerCase(), y = right[i].toLowerCase();
      if (o.numeric && /\d/.test(x) && /\d/.test(y)) {
        const p = BigInt(x), q = BigInt(y);
        if (p !== q) return p < q ? -1 : 1;
      } else if (x !== y) {
        return ORDER.indexOf(x[0]) < ORDER.indexOf(y[0]) ? -1 : 1;
      }
    }
    if (left.length !== right.length) return left.length < right.length ? -1 : 1;
    if (o.sensitivity === "base" || o.sensitivity === "accent") return 0;
    for (let i = 0; i < left.length; i++) if (left[i] !== right[i] && !/\d/.test(left[i])) return left[i] > right[i] ? -1 : 1;
    return 0;
  }
  hidden(String.prototype, "localeCompare", function localeCompare(that, locales, options) {
    if (this === undefined || this === null) throw new TypeError("String.prototype.localeCompare called on null or undefined");
    const api = "String.prototype.localeCompare";
    return collate(api, String(this), String(that), checkCollation(api, locales, options));
  });
  for (const name of ["toLocaleUpperCase", "toLocaleLowerCase"]) {
    const plain = String.prototype[name.replace("Locale", "")];
    hidden(String.prototype, name, { [name](locales) {
      const first = locales === undefined ? "en" : String(typeof locales === "string" ? locales : (Array.from(locales)[0] ?? "en"));
      if (/^(tr|az|lt)\b/i.test(first)) throw absent(`String.prototype.${name}`, `the locale ${first}`);
      return plain.call(this);
    } }[name]);
  }

  // ---- Intl ----------------------------------------------------------------------------------------------------

  const callable = (Class) => new Proxy(Class, { apply: (target, self, values) => new target(...values) });
  class NumberFormat {
    #locale; #options; #given;
    constructor(locales, options) {
      this.#locale = checkLocale("Intl.NumberFormat", locales);
      this.#options = numberOptions("Intl.NumberFormat", options);
      this.#given = { ...options };
      this.format = (value) => formatNumber(typeof value === "bigint" ? value : Number(value), this.#options);
    }
    resolvedOptions() {
      const o = this.#options;
      return { locale: this.#locale, numberingSystem: "latn", style: o.style,
        ...(o.style === "currency" ? { currency: String(o.currency).toUpperCase() } : {}),
        minimumIntegerDigits: o.integers, minimumFractionDigits: o.least, maximumFractionDigits: o.most, useGrouping: o.group };
    }
    formatToParts() { throw absent("Intl.NumberFormat", "formatToParts"); }
    static supportedLocalesOf(locales) { return [locales].flat().filter((l) => /^en(-US)?$/i.test(l)); }
  }
  class DateTimeFormat {
    #locale; #options;
    constructor(locales, options) {
      this.#locale = checkLocale("Intl.DateTimeFormat", locales);
      this.#options = dateOptions("Intl.DateTimeFormat", options, "any", "date");
      this.format = (date) => {
        const d = date === undefined ? new Date() : new Date(date);
        if (Number.isNaN(d.getTime())) throw new RangeError("Invalid time value");
        return formatDate("Intl.DateTimeFormat", d, this.#options);
      };
    }
    resolvedOptions() {
      const { weekday, year, month, day, hour, minute, second } = this.#options;
      const given = { weekday, year, month, day, hour, minute, second };
      for (const key of Object.keys(given)) if (given[key] === undefined) delete given[key];
      return { locale: this.#locale, calendar: "gregory", numberingSystem: "latn", timeZone: "UTC", ...given };
    }
    formatToParts() { throw absent("Intl.DateTimeFormat", "formatToParts"); }
    formatRange() { throw absent("Intl.DateTimeFormat", "formatRange"); }
  }
  class Collator {
    constructor(locales, options) {
      const o = checkCollation("Intl.Collator", locales, options);
      this.compare = (a, b) => collate("Intl.Collator", String(a), String(b), o);
    }
  }
  class PluralRules {
    #ordinal;
    constructor(locales, options = {}) {
      checkLocale("Intl.PluralRules", locales);
      this.#ordinal = pick("Intl.PluralRules", Object(options), "type", ["cardinal", "ordinal"], "cardinal") === "ordinal";
    }
    select(value) {
      const n = Math.abs(Number(value));
      if (!this.#ordinal) return n === 1 ? "one" : "other";
      const ten = n % 10, hundred = n % 100;
      if (ten === 1 && hundred !== 11) return "one";
      if (ten === 2 && hundred !== 12) return "two";
      if (ten === 3 && hundred !== 13) return "few";
      return "other";
    }
  }
  class ListFormat {
    #last;
    constructor(locales, options = {}) {
      checkLocale("Intl.ListFormat", locales);
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
  Intl.getCanonicalLocales = (locales) => [locales ?? []].flat().map(String);
  Intl.supportedValuesOf = () => { throw absent("Intl.supportedValuesOf", "it"); };
  for (const name of Object.keys(Intl)) hidden(Intl, name, Intl[name]);
  Object.defineProperty(Intl, Symbol.toStringTag, { value: "Intl", configurable: true });
  hidden(globalThis, "Intl", Intl);
})
