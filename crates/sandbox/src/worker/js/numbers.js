// Locales and their numbers, as V8 writes them or not at all: the engine ignores locale arguments, which would be wrong
// in silence. What the data does not hold throws a TypeError that names it.
(function (native, host) {
  "use strict";
  const { hidden } = host;
  const absent = (api, what) =>
    new TypeError(`${api}: ${what} is not available here (nor is every locale: there are en, zh, de, fr, es, ja, ko, pt, ru, it, nl, sv); format it yourself`);

  // ---- locales -------------------------------------------------------------------------------------------------

  // The canonical tags that were asked for.
  function tags(locales) {
    if (locales === undefined) return [];
    if (locales === null) throw new TypeError("Cannot convert undefined or null to object");
    const list = typeof locales === "string" ? [locales] : Array.from(Object(locales), (tag) => {
      if (typeof tag !== "string" && (typeof tag !== "object" || tag === null)) throw new TypeError("Language ID should be string or object.");
      return String(tag);
    });
    return list.map((tag) => {
      const canonical = native.canonicalLocale(tag.toWellFormed());
      if (canonical === undefined) throw new RangeError(`Incorrect locale information provided`);
      return canonical;
    });
  }
  const known = new Map();
  // What is known of the first locale that was asked for: { tag, … }.
  function locale(api, locales) {
    const tag = tags(locales)[0] ?? "en-US";
    if (!known.has(tag)) {
      const text = native.locale(tag);
      known.set(tag, text === undefined ? null : { tag: tag.replace(/-u-.*$/, ""), ...JSON.parse(text) });
    }
    const data = known.get(tag);
    if (data === null) throw absent(api, `the locale ${tag}`);
    return data;
  }
  const supported = (locales) => tags(locales).filter((tag) => native.locale(tag) !== undefined);

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

  function numberOptions(api, data, options = {}) {
    if (options === null) throw new TypeError("Cannot convert undefined or null to object");
    options = Object(options);
    refuse(api, options, {
      unit: undefined, numberingSystem: "latn", currencySign: "standard", roundingMode: "halfExpand",
      roundingIncrement: "1", trailingZeroDisplay: "auto", roundingPriority: "auto",
    });
    const style = pick(api, options, "style", ["decimal", "percent", "currency", "unit"], "decimal");
    if (style === "unit") throw absent(api, "the option style: unit");
    const notation = pick(api, options, "notation", ["standard", "scientific", "engineering", "compact"], "standard");
    if (notation === "scientific" || notation === "engineering" || (notation === "compact" && style !== "decimal")) {
      throw absent(api, `the option notation: ${notation} with style: ${style}`);
    }
    const compact = notation === "compact" ? data.compact[pick(api, options, "compactDisplay", ["short", "long"], "short")] : undefined;
    let symbol = "", digits = 0, currency;
    if (style === "currency") {
      if (options.currency === undefined) throw new TypeError("Currency code is required with currency style.");
      currency = String(options.currency).toUpperCase();
      if (!/^[A-Z]{3}$/.test(currency)) throw new RangeError(`Invalid currency code : ${options.currency}`);
      if (!Object.hasOwn(data.symbols, currency)) throw absent(api, `the currency ${currency}`);
      const [usual, narrow, places] = data.symbols[currency];
      const display = pick(api, options, "currencyDisplay", ["symbol", "narrowSymbol", "code", "name"], "symbol");
      if (display === "name") throw absent(api, "the option currencyDisplay: name");
      symbol = { symbol: usual, narrowSymbol: narrow, code: currency }[display];
      digits = places;
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
    const free = compact !== undefined && least === undefined && most === undefined;
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
    const group = grouping === undefined ? (compact ? "min2" : "auto") : grouping === true || String(grouping) === "true" ? "always" : String(grouping);
    return { data, style, notation, symbol, integers, least, most, significant, sign, currency, group,
      // Compact numbers without digits asked for: two of them, or all whole ones.
      compact, free: free && significant === undefined };
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

  // The number without sign, and whether it has one. A text of digits keeps them all.
  function read(value) {
    if (typeof value === "bigint") return [value < 0n, decimal(String(value < 0n ? -value : value))];
    const exact = typeof value === "string" ? /^\s*([+-]?)(\d+(?:\.\d+)?)\s*$/.exec(value) : null;
    if (exact !== null) return [exact[1] === "-", decimal(exact[2])];
    const x = Number(value);
    if (Number.isNaN(x)) return [false, "nan"];
    return [x < 0 || Object.is(x, -0), Math.abs(x) === Infinity ? "infinity" : decimal(String(Math.abs(x)))];
  }

  function rounded(body, o) {
    if (o.significant) return round(body, o.significant[1]);
    if (o.free) return round(body, Math.max(2, body.point));
    return round(body, body.point + o.most);
  }

  // The digits before and behind the point.
  function written(body, o) {
    const least = o.significant ? Math.max(0, o.significant[0] - (body.digits === "" ? 1 : body.point)) : o.least;
    const stripped = body.digits.replace(/0+$/, ""), zero = stripped === "";
    const whole = zero || body.point <= 0 ? "" : stripped.slice(0, body.point).padEnd(body.point, "0");
    const fraction = zero ? "" : body.point <= 0 ? "0".repeat(-body.point) + stripped : stripped.slice(body.point);
    return { whole: whole.padStart(o.integers, "0"), fraction: fraction.padEnd(least, "0"), zero };
  }

  // Some locales write sums of money in their own way.
  const marks = ({ style, data }) => (style === "currency" ? data.money : data);

  function grouped(whole, o) {
    const { min2, sizes: [first, others] } = o.data, { group } = marks(o);
    const least = o.group === "min2" || (o.group === "auto" && min2) ? 2 : 1;
    if (o.group === "false" || whole.length < first + least) return whole;
    let out = whole.slice(-first), left = whole.slice(0, -first);
    while (left.length > others) { out = left.slice(-others) + group + out; left = left.slice(0, -others); }
    return left + group + out;
  }

  const MOST_POWER = 19; // in the data
  // The word behind a compact number, and the number that stands before it.
  function shortened(body, o) {
    const { compact, data } = o;
    const entry = (power, category) => {
      const at = Math.min(power, MOST_POWER);
      return compact[`${at}:${category}`] ?? compact[`${at}:other`] ?? compact[Object.keys(compact).find((key) => key.startsWith(`${at}:`))];
    };
    const scaled = (power) => {
      const shift = power < 3 || body.digits === "" ? 0 : entry(power, "other")[0];
      return rounded({ digits: body.digits, point: body.point - shift }, o);
    };
    let power = body.point - 1, number = scaled(power);
    const shift = power < 3 ? 0 : entry(power, "other")[0];
    // Rounding may have made it longer: 999,999 is 1M.
    if (body.digits !== "" && number.point + shift - 1 > power) number = scaled(++power);
    if (power < 3 || body.digits === "") return [number, "{n}"];
    const { whole, fraction } = written(number, o);
    const text = fraction === "" ? whole : `${whole}.${fraction}`;
    return [number, (compact[`${power}=${text}`] ?? entry(power, native.plural(data.tag, false, text)))[1]];
  }

  const SYMBOL = /[\p{S}\p{Z}]/u;
  function formatNumber(value, o) {
    const { data } = o;
    let [negative, body] = read(value), zero = false, frame = "{n}", text;
    if (typeof body === "string") {
      text = data[body];
    } else {
      if (o.style === "percent") body.point += 2;
      if (body.digits === "") body.point = 0;
      if (o.compact) [body, frame] = shortened(body, o);
      else body = rounded(body, o);
      const parts = written(body, o);
      ({ zero } = parts);
      const whole = grouped(parts.whole, o);
      text = parts.fraction === "" ? whole : whole + marks(o).decimal + parts.fraction;
    }
    const mark = {
      auto: negative, never: false, always: true, exceptZero: !(zero || body === "nan"), negative: negative && !zero,
    }[o.sign] ? (negative ? data.minus : data.plus) : "";
    const at = mark === "" ? 0 : 1;
    if (o.style === "percent") frame = data.percent[at];
    else if (o.style === "currency") {
      const first = data.money.symbol[0].startsWith("{n}");
      const letters = typeof body !== "string" && !SYMBOL.test(first ? [...o.symbol][0] : [...o.symbol].at(-1));
      frame = data.money[letters ? "letters" : "symbol"][at];
    } else if (mark !== "") frame = `{-}${frame}`;
    return frame.replace("{n}", () => text).replace("{-}", () => mark).replace("{c}", () => o.symbol);
  }

  const valueOfNumber = Number.prototype.valueOf, valueOfBig = BigInt.prototype.valueOf;
  for (const [proto, name, valueOf] of [[Number.prototype, "Number", valueOfNumber], [BigInt.prototype, "BigInt", valueOfBig]]) {
    const api = `${name}.prototype.toLocaleString`;
    hidden(proto, "toLocaleString", function toLocaleString(locales, options) {
      const value = valueOf.call(this);
      return formatNumber(value, numberOptions(api, locale(api, locales), options));
    });
  }
  // The engine hands neither locale nor options on to the elements.
  for (const proto of [Array.prototype, Object.getPrototypeOf(Uint8Array.prototype)]) {
    hidden(proto, "toLocaleString", function toLocaleString(locales, options) {
      const out = [];
      for (let i = 0; i < this.length; i++) {
        const item = this[i];
        out.push(item === undefined || item === null ? "" : String(item.toLocaleString(locales, options)));
      }
      return out.join(",");
    });
  }

  class NumberFormat {
    #options;
    constructor(locales, options) {
      const api = "Intl.NumberFormat";
      this.#options = numberOptions(api, locale(api, locales), options);
      this.format = (value) => formatNumber(typeof value === "object" && value !== null ? Number(value) : value, this.#options);
    }
    resolvedOptions() {
      const o = this.#options;
      return { locale: o.data.tag, numberingSystem: "latn", style: o.style, ...(o.currency ? { currency: o.currency } : {}),
        minimumIntegerDigits: o.integers, minimumFractionDigits: o.least, maximumFractionDigits: o.most,
        ...(o.significant ? { minimumSignificantDigits: o.significant[0], maximumSignificantDigits: o.significant[1] } : {}),
        useGrouping: o.group === "false" ? false : o.group, notation: o.notation, signDisplay: o.sign };
    }
    formatToParts() { throw absent("Intl.NumberFormat", "formatToParts"); }
    formatRange() { throw absent("Intl.NumberFormat", "formatRange"); }
    static supportedLocalesOf(locales) { return supported(locales); }
  }

  const ORDINARY = ["minimumIntegerDigits", "minimumFractionDigits", "maximumFractionDigits", "minimumSignificantDigits", "maximumSignificantDigits"];
  class PluralRules {
    #options; #ordinal;
    constructor(locales, options = {}) {
      const api = "Intl.PluralRules", o = Object(options);
      refuse(api, o, { notation: "standard", roundingMode: "halfExpand" });
      const digits = Object.fromEntries(ORDINARY.filter((name) => o[name] !== undefined).map((name) => [name, o[name]]));
      this.#options = numberOptions(api, locale(api, locales), digits);
      this.#ordinal = pick(api, o, "type", ["cardinal", "ordinal"], "cardinal") === "ordinal";
      // Here the data of ICU4X and of V8 differ.
      if (this.#ordinal && /^es\b/.test(this.#options.data.tag)) throw absent(api, "the option type: ordinal in Spanish");
    }
    select(value) {
      const [, body] = read(Number(value));
      if (typeof body === "string") return "other";
      if (body.digits === "") body.point = 0;
      const { whole, fraction } = written(rounded(body, this.#options), this.#options);
      return native.plural(this.#options.data.tag, this.#ordinal, fraction === "" ? whole : `${whole}.${fraction}`);
    }
    resolvedOptions() { throw absent("Intl.PluralRules", "resolvedOptions"); }
    static supportedLocalesOf(locales) { return supported(locales); }
  }

  host.intl = { absent, tags, locale, supported, pick, refuse, NumberFormat, PluralRules };
})
