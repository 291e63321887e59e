// Date with texts read as Node reads them (TZ=UTC). The engine's own reading of anything but ISO 8601 differs in
// places (`Jan 32 2024` is a date to it), which would be wrong in silence.
(function (native, host) {
  "use strict";
  const { hidden } = host;
  const RealDate = Date, construct = Reflect.construct, utc = Date.UTC, systemNow = Date.now;
  const valueOf = Date.prototype.valueOf;

  const WORDS = new Map([["am", ["half", 0]], ["pm", ["half", 12]], ["t", ["separator", 0]]]);
  ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"].forEach((m, i) => WORDS.set(m, ["month", i + 1]));
  for (const [zone, hours] of [["ut", 0], ["utc", 0], ["z", 0], ["gmt", 0], ["cdt", -5], ["cst", -6], ["edt", -4],
    ["est", -5], ["mdt", -6], ["mst", -7], ["pdt", -7], ["pst", -8]]) WORDS.set(zone, ["zone", hours]);

  const SPACE = /\s/;
  const digit = (c) => c >= "0" && c <= "9";
  const END = { kind: "end" };

  function tokens(text) {
    const out = [];
    let at = 0;
    while (at < text.length) {
      const c = text[at], start = at;
      if (digit(c)) {
        while (at < text.length && digit(text[at])) at++;
        const digits = text.slice(start, at).replace(/^0+/, "").slice(0, 9);
        out.push({ kind: "number", n: Number(digits || "0"), length: at - start });
      } else if (":-+.)".includes(c)) {
        at++;
        out.push({ kind: c });
      } else if (c >= "A" && !SPACE.test(c)) {
        while (at < text.length && text[at] >= "A" && !SPACE.test(text[at])) at++;
        const length = at - start;
        const known = WORDS.get(text.slice(start, Math.min(at, start + 3)).toLowerCase());
        // Only the names of months may be longer than their first three letters.
        const [type, value] = known && (length <= 3 || known[0] === "month") ? known : ["other", 0];
        out.push({ kind: "word", type, value, length });
      } else if (SPACE.test(c)) {
        at++;
        out.push({ kind: "space" });
      } else if (c === "(") {
        let open = 0;
        do {
          if (text[at] === "(") open++;
          else if (text[at] === ")") open--;
          at++;
        } while (open > 0 && at < text.length);
        out.push({ kind: "other" });
      } else {
        at++;
        out.push({ kind: "other" });
      }
    }
    return out;
  }

  const within = (n, low, high) => n >= low && n <= high;
  const isDay = (n) => within(n, 1, 31), isMonth = (n) => within(n, 1, 12), isMinute = (n) => within(n, 0, 59);

  function milliseconds({ n, length }) {
    const digits = Math.min(length, 9);
    return digits <= 3 ? n * 10 ** (3 - digits) : Math.floor(n / 10 ** (digits - 3));
  }

  // Milliseconds since the epoch, or NaN.
  function parse(text) {
    const all = tokens(text);
    let at = 0;
    const peek = () => all[at] ?? END;
    const next = () => all[at++] ?? END;
    const skip = (kind) => peek().kind === kind && (at++, true);
    const fixed = (length) => peek().kind === "number" && peek().length === length;
    const day = [], time = [], zone = { sign: undefined, hour: undefined, minute: undefined };
    let month, half, iso = false;
    const setZone = (hours) => { zone.sign = hours < 0 ? -1 : 1; zone.hour = Math.abs(hours); zone.minute = 0; };

    // ISO 8601 first. The token with which the lenient reading goes on; `null` when the text is wrong for both.
    function strict() {
      if (peek().kind === "+" || peek().kind === "-") {
        const sign = next();
        if (!fixed(6)) return sign;
        const year = next().n;
        if (sign.kind === "-" && year === 0) return sign;
        day.push(sign.kind === "-" ? -year : year);
      } else if (fixed(4)) {
        day.push(next().n);
      } else {
        return next();
      }
      if (skip("-")) {
        if (!fixed(2) || !isMonth(peek().n)) return next();
        day.push(next().n);
        if (skip("-")) {
          if (!fixed(2) || !isDay(peek().n)) return next();
          day.push(next().n);
        }
      }
      if (!(peek().kind === "word" && peek().type === "separator")) {
        if (peek() !== END) return next();
      } else {
        next();
        if (!fixed(2) || !within(peek().n, 0, 24)) return null;
        const last = peek().n === 24;
        time.push(next().n);
        if (!skip(":")) return null;
        if (!fixed(2) || !isMinute(peek().n) || (last && peek().n > 0)) return null;
        time.push(next().n);
        if (skip(":")) {
          if (!fixed(2) || !isMinute(peek().n) || (last && peek().n > 0)) return null;
          time.push(next().n);
          if (skip(".")) {
            if (peek().kind !== "number" || (last && peek().n > 0)) return null;
            time.push(milliseconds(next()));
          }
        }
        if (peek().kind === "word" && peek().type === "zone" && peek().length === 1) {
          next();
          setZone(0);
        } else if (peek().kind === "+" || peek().kind === "-") {
          zone.sign = next().kind === "+" ? 1 : -1;
          if (fixed(4)) {
            const { n } = next();
            zone.hour = Math.floor(n / 100);
            zone.minute = n % 100;
            if (zone.hour > 23 || zone.minute > 59) return null;
          } else {
            if (!fixed(2) || peek().n > 23) return null;
            zone.hour = next().n;
            if (!skip(":") || !fixed(2) || peek().n > 59) return null;
            zone.minute = next().n;
          }
        }
        if (peek() !== END) return null;
      }
      iso = true;
      return END;
    }

    let token = strict();
    if (token === null) return NaN;
    let numbers = day.length > 0;
    const expecting = (n) => (time.length === 1 && isMinute(n)) || (time.length === 2 && isMinute(n)) || (time.length === 3 && within(n, 0, 999));
    const finish = (n) => { time.push(n); while (time.length < 4) time.push(0); };
    for (; token !== END; token = next()) {
      if (token.kind === "number") {
        numbers = true;
        const { n } = token;
        if (skip(":")) {
          if (skip(":")) {
            if (time.length > 0) return NaN;
            time.push(n, 0);
          } else {
            if (time.length >= 4) return NaN;
            time.push(n);
            skip(".");
          }
        } else if (skip(".") && expecting(n)) {
          time.push(n);
          if (peek().kind !== "number") return NaN;
          finish(milliseconds(next()));
        } else if (zone.hour !== undefined && zone.minute === undefined && isMinute(n)) {
          zone.minute = n;
        } else if (expecting(n)) {
          finish(n);
          const after = peek();
          const z = after.kind === "word" && after.type === "zone" && after.length === 1;
          if (after !== END && after.kind !== "space" && !z && after.kind !== "+" && after.kind !== "-") return NaN;
        } else {
          if (day.length >= 3) return NaN;
          day.push(n);
          skip("-");
        }
      } else if (token.kind === "word") {
        if (token.type === "half" && time.length > 0) {
          half = token.value;
        } else if (token.type === "month") {
          month = token.value;
          skip("-");
        } else if (token.type === "zone" && numbers) {
          setZone(token.value);
        } else if (numbers || peek().kind === "number") {
          return NaN;
        }
      } else if ((token.kind === "+" || token.kind === "-") && ((zone.hour === 0 && zone.minute === 0) || time.length > 0)) {
        zone.sign = token.kind === "+" ? 1 : -1;
        let n = 0, length = 0;
        if (peek().kind === "number") ({ n, length } = next());
        numbers = true;
        if (peek().kind === ":") {
          zone.hour = n;
          zone.minute = undefined;
        } else if (length === 1 || length === 2) {
          zone.hour = n;
          zone.minute = 0;
        } else if (length === 3 || length === 4) {
          zone.hour = Math.floor(n / 100);
          zone.minute = n % 100;
        } else {
          return NaN;
        }
      } else if ((token.kind === "+" || token.kind === "-" || token.kind === ")") && numbers) {
        return NaN;
      }
    }

    if (day.length === 0) return NaN;
    while (day.length < 3) day.push(1);
    let year, date;
    if (month !== undefined) [year, date] = isDay(day[0]) ? [day[1], day[0]] : [day[0], day[1]];
    else if (iso || !isDay(day[0])) [year, month, date] = day;
    else [month, date, year] = day;
    if (!iso) year += within(year, 0, 49) ? 2000 : within(year, 50, 99) ? 1900 : 0;
    if (!isMonth(month) || !isDay(date)) return NaN;
    while (time.length < 4) time.push(0);
    let [hour] = time;
    const [, minute, second, ms] = time;
    if (half !== undefined) {
      if (!within(hour, 0, 12)) return NaN;
      hour = (hour % 12) + half;
    }
    const usual = within(hour, 0, 23) && isMinute(minute) && isMinute(second) && within(ms, 0, 999);
    if (!usual && !(hour === 24 && minute === 0 && second === 0 && ms === 0)) return NaN;
    const offset = zone.sign === undefined ? 0 : zone.sign * ((zone.hour ?? 0) * 60 + (zone.minute ?? 0));
    // Years before 100 would be taken for those of the last century: count from 400 years later, the calendar's period.
    const moved = within(year, 0, 99);
    return utc(moved ? year + 400 : year, month - 1, date, hour, minute - offset, second, ms) - (moved ? 146097 * 864e5 : 0);
  }

  let fixed; // milliseconds, when runs must see the same time
  const now = () => fixed ?? systemNow();
  host.fixDate = (ms) => { fixed = ms; };

  const primitive = (x) => {
    if (typeof x !== "object" || x === null) return x;
    if (host.isDate(x)) return valueOf.call(x);
    const plain = x.valueOf();
    return typeof plain === "object" && plain !== null ? String(x) : plain;
  };
  const Own = function Date(...values) {
    if (new.target === undefined) return new RealDate(now()).toString();
    if (values.length === 0) values = [now()];
    else if (values.length === 1) {
      const value = primitive(values[0]);
      values = [typeof value === "string" ? parse(value) : value];
    }
    return construct(RealDate, values, new.target);
  };
  Object.defineProperty(Own, "length", { value: 7, configurable: true });
  Object.defineProperty(Own, "prototype", { value: RealDate.prototype, writable: false });
  hidden(Own, "now", () => now());
  hidden(Own, "parse", (text) => new RealDate(parse(String(text))).getTime());
  hidden(Own, "UTC", utc);
  hidden(RealDate.prototype, "constructor", Own);

  // The engine leaves out the name of the zone.
  for (const name of ["toString", "toTimeString"]) {
    const plain = RealDate.prototype[name];
    hidden(RealDate.prototype, name, { [name]() {
      const text = plain.call(this);
      return text.endsWith("GMT+0000") ? `${text} (Coordinated Universal Time)` : text;
    } }[name]);
  }
  hidden(globalThis, "Date", Own);
  // The C library reads its time zone at the first use, which must be before the sandbox closes.
  new RealDate(2024, 0, 1).getTimezoneOffset();
})
