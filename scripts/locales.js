// Writes crates/sandbox/data/locales.tsv: how each locale writes numbers and dates, read off V8's own Intl (CLDR), and
// crates/sandbox/data/intl.tsv: expressions with the values V8 gives for them, for the tests.
// TZ=UTC deno run --allow-write=crates/sandbox/data scripts/locales.js
// A pattern is kept only if it gives V8's own text for every month, weekday and half of the day; what is not kept throws.

const LOCALES = [
  "en-US", "en-GB", "en-CA", "en-AU", "en-IN", "zh-CN", "zh-TW", "zh-HK", "de-DE", "de-AT", "de-CH", "fr-FR", "fr-CA",
  "es-ES", "es-MX", "ja-JP", "ko-KR", "pt-BR", "pt-PT", "ru-RU", "it-IT", "nl-NL", "sv-SE",
];
const CURRENCIES = ["USD", "EUR", "GBP", "JPY", "CNY", "INR", "KRW", "CAD", "AUD", "MXN", "BRL", "NZD", "HKD", "CHF", "ILS",
  "VND", "TWD", "RUB", "SEK", "NOK", "DKK", "PLN", "CZK", "TRY", "SGD", "THB", "ZAR"];

// ---- numbers ---------------------------------------------------------------------------------------------------

const parts = (locale, options, value) => new Intl.NumberFormat(locale, options).formatToParts(value);
const text = (list, type) => list.filter((p) => p.type === type).map((p) => p.value).join("");
const DIGITS = new Set(["integer", "group", "decimal", "fraction", "nan", "infinity"]);

const MOST_POWER = 19;

// Everything around the digits: {n} stands for them, {-} for the sign, {c} for the currency.
function frame(list) {
  let out = "";
  for (const { type, value } of list) {
    if (DIGITS.has(type)) { if (!out.endsWith("{n}")) out += "{n}"; }
    else if (type === "minusSign" || type === "plusSign") out += "{-}";
    else if (type === "currency") out += "{c}";
    else out += value;
  }
  return out;
}

function numbers(locale) {
  const big = parts(locale, {}, 123456789.5);
  const groups = big.filter((p) => p.type === "integer").map((p) => p.value.length);
  const data = {
    decimal: text(big, "decimal"), group: big.find((p) => p.type === "group").value,
    sizes: [groups.at(-1), groups.at(-2)], min2: !parts(locale, {}, 1234).some((p) => p.type === "group"),
    nan: text(parts(locale, {}, NaN), "nan"), infinity: text(parts(locale, {}, Infinity), "infinity"),
    minus: text(parts(locale, {}, -1), "minusSign"), plus: text(parts(locale, { signDisplay: "always" }, 1), "plusSign"),
    // Positive and signed.
    percent: [frame(parts(locale, { style: "percent" }, 0.5)), frame(parts(locale, { style: "percent" }, -0.5))],
  };
  const money = (currency, currencyDisplay) => [1, -1].map((x) => frame(parts(locale, { style: "currency", currency, currencyDisplay }, x)));
  // A currency that ends in a symbol, and one that ends in a letter, which keeps its distance.
  const sum = parts(locale, { style: "currency", currency: "EUR" }, 1234567.5);
  data.money = { decimal: text(sum, "decimal"), group: sum.find((p) => p.type === "group").value, symbol: money("USD", "narrowSymbol"), letters: money("USD", "code") };
  data.symbols = {};
  for (const currency of CURRENCIES) {
    const shown = ["symbol", "narrowSymbol"].map((currencyDisplay) => text(parts(locale, { style: "currency", currency, currencyDisplay }, 1), "currency"));
    const digits = new Intl.NumberFormat(locale, { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
    data.symbols[currency] = [...shown, digits];
  }
  data.compact = {};
  for (const compactDisplay of ["short", "long"]) {
    const rules = new Intl.PluralRules(locale), table = {};
    for (let power = 3; power <= MOST_POWER; power++) {
      // 5 first: it is written with its digits everywhere.
      for (const first of [5, 1, 2, 1.5, 2.5, 2.1, 2.2, 1.21, 1.22]) {
        const list = parts(locale, { notation: "compact", compactDisplay, useGrouping: false }, first * 10 ** power);
        const whole = text(list, "integer"), shown = Number(`${whole}.${text(list, "fraction") || 0}`);
        // A thousand may have a word of its own.
        const key = whole === "" ? `${power}=${first}` : `${power}:${rules.select(shown)}`;
        const shift = whole === "" ? power : power + 1 - whole.length;
        table[key] ??= [shift, frame(list)];
      }
    }
    // Powers that are written with the same word share its plurals.
    for (const [key, [shift]] of Object.entries(table)) {
      for (const [other, value] of Object.entries(table)) {
        if (value[0] === shift && other.includes(":")) table[`${/^\d+/.exec(key)}:${other.split(":")[1]}`] ??= value;
      }
    }
    data.compact[compactDisplay] = table;
  }
  return data;
}

// ---- dates -----------------------------------------------------------------------------------------------------

const day = (month, date, hour = 9) => new Date(Date.UTC(2023, month, date, hour, 7, 3));
const dates = (locale, options, date) => new Intl.DateTimeFormat(locale, { timeZone: "UTC", ...options }).formatToParts(date);
const field = (locale, options, type, date) => text(dates(locale, options, date), type);
const unique = (list) => [...new Set(list.map((x) => JSON.stringify(x)))].map((x) => JSON.parse(x));

// Lists of names, each of which a pattern can use by its place.
function names(locale) {
  const months = [], weekdays = [];
  const all = (type, options) => (type === "month" ? months : weekdays).push(
    type === "month" ? Array.from({ length: 12 }, (_, m) => field(locale, options, type, day(m, 15)))
      : Array.from({ length: 7 }, (_, d) => field(locale, options, type, day(0, d + 1))), // 1 January 2023 is a Sunday
  );
  for (const width of ["long", "short"]) {
    for (const others of [{}, { day: "numeric" }, { year: "numeric" }, { year: "numeric", day: "numeric" }, { year: "numeric", day: "numeric", weekday: "long" }, { day: "numeric", weekday: "short" }]) {
      all("month", { month: width, ...others });
      const { weekday: _, ...rest } = others;
      all("weekday", { weekday: width, ...rest });
      if (others.day) all("weekday", { weekday: width, month: width, ...rest });
    }
  }
  for (const dateStyle of ["full", "long", "medium", "short"]) { all("month", { dateStyle }); all("weekday", { dateStyle }); }
  const words = (list) => unique(list).filter((l) => l.every((x) => x !== "" && !/^\d+$/.test(x)));
  return { months: words(months), weekdays: words(weekdays),
    periods: Array.from({ length: 24 }, (_, h) => field(locale, { timeStyle: "short", hour12: true }, "dayPeriod", day(2, 5, h))),
    halves: [9, 21].map((h) => field(locale, { hour: "numeric", hour12: true }, "dayPeriod", day(2, 5, h))) };
}

const pad = (n) => String(n).padStart(2, "0");
// What a field of a pattern can be: type, letter, and its text for a date.
function forms(data) {
  const out = [
    ["year", "y", (d) => String(d.getUTCFullYear())], ["year", "Y", (d) => pad(d.getUTCFullYear() % 100)],
    ["month", "M", (d) => String(d.getUTCMonth() + 1)], ["month", "N", (d) => pad(d.getUTCMonth() + 1)],
    ["day", "d", (d) => String(d.getUTCDate())], ["day", "D", (d) => pad(d.getUTCDate())],
    ["hour", "H", (d) => String(d.getUTCHours())], ["hour", "I", (d) => pad(d.getUTCHours())],
    ["hour", "h", (d) => String(d.getUTCHours() % 12 || 12)], ["hour", "g", (d) => pad(d.getUTCHours() % 12 || 12)],
    ["hour", "K", (d) => String(d.getUTCHours() % 12)], ["hour", "L", (d) => pad(d.getUTCHours() % 12)],
    ["hour", "k", (d) => String(d.getUTCHours() || 24)], ["hour", "l", (d) => pad(d.getUTCHours() || 24)],
    ["minute", "m", (d) => String(d.getUTCMinutes())], ["minute", "n", (d) => pad(d.getUTCMinutes())],
    ["second", "s", (d) => String(d.getUTCSeconds())], ["second", "t", (d) => pad(d.getUTCSeconds())],
    ["dayPeriod", "a", (d) => data.halves[d.getUTCHours() < 12 ? 0 : 1]],
    ["dayPeriod", "b", (d) => data.periods[d.getUTCHours()]],
    ["timeZoneName", "z", () => data.utc[0]], ["timeZoneName", "Z", () => data.utc[1]],
  ];
  data.months.forEach((list, i) => out.push(["month", `o${i}`, (d) => list[d.getUTCMonth()]]));
  data.weekdays.forEach((list, i) => out.push(["weekday", `w${i}`, (d) => list[d.getUTCDay()]]));
  return out;
}

// One date for every month, weekday, half of the day, and for numbers of one digit and of two.
const SAMPLES = [...Array.from({ length: 48 }, (_, i) => new Date(Date.UTC(2023, 8, 14, i >> 1, (i & 1) * 30, i))), ...Array.from({ length: 12 }, (_, m) => day(m, 3 + m, m)), ...Array.from({ length: 7 }, (_, d) => day(4, 12 + d, 12 + d)),
  new Date(Date.UTC(2004, 10, 30, 0, 45, 59)), new Date(Date.UTC(2030, 0, 1, 12, 0, 0)), new Date(Date.UTC(2009, 1, 28, 23, 59, 10)), new Date(Date.UTC(1987, 6, 9, 1, 9, 0))];

// The pattern that gives the text of every sample, or null.
function pattern(locale, options, known) {
  const lists = SAMPLES.map((date) => dates(locale, options, date));
  const shape = (list) => list.map((p) => (p.type === "literal" ? p.value : `{${p.type}}`)).join("");
  if (lists.some((list) => shape(list) !== shape(lists[0]))) return null;
  let out = "";
  for (const [at, part] of lists[0].entries()) {
    if (part.type === "literal") { out += part.value; continue; }
    const form = known.find(([type, , show]) => type === part.type && SAMPLES.every((date, i) => show(date) === lists[i][at].value));
    if (form === undefined) return null;
    out += `{${form[1]}}`;
  }
  return out;
}

const WEEKDAY = [undefined, "short", "long"], YEAR = [undefined, "numeric", "2-digit"], MONTH = [undefined, "numeric", "2-digit", "short", "long"], DAY = YEAR;
const DATE = [];
for (const weekday of WEEKDAY) for (const year of YEAR) for (const month of MONTH) for (const date of DAY) DATE.push({ weekday, year, month, day: date });
const CYCLES = [{}, { hour12: true }, { hour12: false }, { hourCycle: "h11" }, { hourCycle: "h12" }, { hourCycle: "h23" }, { hourCycle: "h24" }];
const TIME = [];
for (const hour of YEAR) for (const minute of YEAR) for (const second of YEAR) for (const cycle of CYCLES) TIME.push([{ hour, minute, second }, cycle]);
const STYLES = [undefined, "full", "long", "medium", "short"];
const clean = (o) => Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined));

function calendar(locale) {
  const data = names(locale);
  data.utc = ["short", "long"].map((timeZoneName) => field(locale, { timeZoneName, hour: "numeric" }, "timeZoneName", day(2, 5)));
  const known = forms(data), patterns = [];
  const place = (text) => {
    if (text === null) return -1;
    const at = patterns.indexOf(text);
    return at >= 0 ? at : patterns.push(text) - 1;
  };
  // In the order of the loops above; -1 where V8 does what is not one pattern.
  data.date = DATE.map((o) => (Object.keys(clean(o)).length === 0 ? -1 : place(pattern(locale, o, known))));
  data.time = TIME.map(([o, cycle]) => (Object.keys(clean(o)).length === 0 ? -1 : place(pattern(locale, { ...o, ...cycle }, known))));
  // What stands between a date and a time: only where the two parts are those of above, whatever the time.
  data.glue = DATE.map((o, i) => {
    if (data.date[i] < 0) return -1;
    const both = [[{ hour: "numeric", minute: "2-digit" }, {}], [{ hour: "2-digit", minute: "2-digit", second: "2-digit" }, { hour12: false }],
      [{ hour: "numeric" }, {}], [{ hour: "numeric", minute: "numeric", second: "numeric" }, {}]].map(([time, cycle]) => {
      const whole = pattern(locale, { ...o, ...time, ...cycle }, known);
      const own = TIME.findIndex(([t, c]) => JSON.stringify([clean(t), c]) === JSON.stringify([time, cycle]));
      const first = patterns[data.date[i]], second = patterns[data.time[own]];
      if (whole === null || !whole.startsWith(first) || !whole.endsWith(second)) return null;
      return whole.slice(first.length, whole.length - second.length);
    });
    return both.every((glue) => glue !== null && glue === both[0]) ? place(both[0]) : -1;
  });
  data.style = [];
  for (const dateStyle of STYLES) for (const timeStyle of STYLES) for (const cycle of CYCLES.slice(0, 3)) {
    data.style.push(dateStyle || timeStyle ? place(pattern(locale, { ...clean({ dateStyle, timeStyle }), ...cycle }, known)) : -1);
  }
  data.patterns = patterns;
  if (!patterns.some((p) => p.includes("{b}"))) delete data.periods;
  return data;
}

const lines = LOCALES.map((locale) => `${locale}\t${JSON.stringify({ ...numbers(locale), ...calendar(locale) })}\n`);
Deno.writeTextFileSync("crates/sandbox/data/locales.tsv", lines.join(""));
for (const line of lines) {
  const [locale, json] = line.split("\t"), data = JSON.parse(json);
  const gone = (list) => `${list.filter((x) => x < 0).length} of ${list.length}`;
  console.log(locale, line.length, "bytes; without a pattern: date", gone(data.date), "time", gone(data.time), "glue", gone(data.glue), "style", gone(data.style), JSON.stringify(data.months.length), JSON.stringify(data.weekdays.length));
}

// ---- expressions for the tests -----------------------------------------------------------------------------------

const code = JSON.stringify;
const expressions = [];
// What the expressions call N and D.
const NUMBERS = "[-0, 1, 2, 5, 1.25, 9.96, 999.5, 1234.5, -1234, 12345, 999999, 1234567.891, 0.000123, 2.5e10, 123456789012345, NaN, -Infinity, 12345678901234567890n]";
const NUMBER_OPTIONS = [
  {}, { maximumFractionDigits: 2 }, { minimumFractionDigits: 2 }, { maximumFractionDigits: 0 }, { style: "percent" },
  { style: "percent", minimumFractionDigits: 1 }, { style: "currency", currency: "EUR" }, { style: "currency", currency: "USD" },
  { style: "currency", currency: "JPY" }, { style: "currency", currency: "CNY", currencyDisplay: "narrowSymbol" },
  { style: "currency", currency: "CHF" }, { style: "currency", currency: "BRL", currencyDisplay: "code" },
  { style: "currency", currency: "KRW", minimumFractionDigits: 2 }, { useGrouping: false }, { useGrouping: "always" }, { useGrouping: "min2" },
  { signDisplay: "always" }, { signDisplay: "exceptZero", style: "percent" }, { signDisplay: "never" }, { signDisplay: "negative", style: "currency", currency: "GBP" },
  { maximumSignificantDigits: 3 }, { minimumSignificantDigits: 3, maximumSignificantDigits: 5 }, { minimumIntegerDigits: 3 },
  { notation: "compact" }, { notation: "compact", compactDisplay: "long" }, { notation: "compact", maximumFractionDigits: 1 },
  { notation: "compact", minimumFractionDigits: 2 }, { notation: "compact", maximumSignificantDigits: 3 },
];
const DATES = "[951782399000, 1709823849123, 1735689600000, 1719793861000].map(t => new Date(t))";
const DATE_CALLS = [
  ["toLocaleDateString"], ["toLocaleTimeString"], ["toLocaleString"],
  ...["full", "long", "medium", "short"].flatMap((style) => [["toLocaleDateString", { dateStyle: style }], ["toLocaleTimeString", { timeStyle: style }],
    ["toLocaleString", { dateStyle: style, timeStyle: "short" }], ["toLocaleString", { dateStyle: style, timeStyle: "medium", hour12: true }]]),
  ["toLocaleDateString", { weekday: "long", year: "numeric", month: "long", day: "numeric" }], ["toLocaleDateString", { weekday: "short", month: "short", day: "numeric" }],
  ["toLocaleDateString", { year: "numeric", month: "2-digit", day: "2-digit" }], ["toLocaleDateString", { year: "2-digit", month: "numeric", day: "numeric" }],
  ["toLocaleDateString", { month: "long" }], ["toLocaleDateString", { month: "long", year: "numeric" }], ["toLocaleDateString", { month: "short", day: "2-digit" }],
  ["toLocaleDateString", { weekday: "long" }], ["toLocaleDateString", { year: "numeric" }], ["toLocaleDateString", { day: "numeric" }], ["toLocaleDateString", { weekday: "short", day: "numeric" }],
  ["toLocaleDateString", { year: "numeric", month: "2-digit" }], ["toLocaleDateString", { hour: "numeric" }],
  ["toLocaleTimeString", { hour: "2-digit", minute: "2-digit" }], ["toLocaleTimeString", { hour: "numeric", minute: "2-digit", hour12: true }],
  ["toLocaleTimeString", { hour12: false }], ["toLocaleTimeString", { hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" }],
  ["toLocaleTimeString", { hour: "numeric" }], ["toLocaleTimeString", { minute: "2-digit", second: "2-digit" }],
  ["toLocaleString", { month: "long", day: "numeric", hour: "numeric", minute: "2-digit" }], ["toLocaleString", { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }],
  ["toLocaleString", { weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "numeric" }],
  ["toLocaleString", { timeZone: "America/New_York" }], ["toLocaleString", { timeZone: "Asia/Shanghai", dateStyle: "medium", timeStyle: "medium" }],
  ["toLocaleString", { timeZone: "Asia/Kolkata" }], ["toLocaleString", { timeZone: "Europe/Berlin", dateStyle: "full" }], ["toLocaleString", { timeZone: "+05:30" }],
];
// Every choice for these, and the first ones for their neighbours.
const FIRST = ["en-US", "en-GB", "en-IN", "zh-CN", "zh-TW", "de-DE", "de-CH", "fr-FR", "es-ES", "ja-JP", "ko-KR", "pt-BR", "ru-RU"];
for (const locale of LOCALES) {
  const some = (list, count) => (FIRST.includes(locale) ? list : list.slice(0, count));
  for (const options of some(NUMBER_OPTIONS, 8)) expressions.push(`N.map(x => x.toLocaleString(${code(locale)}, ${code(options)}))`);
  for (const [name, options] of some(DATE_CALLS, 12)) expressions.push(`D.map(d => d.${name}(${code(locale)}${options ? `, ${code(options)}` : ""}))`);
  expressions.push(`new Intl.DateTimeFormat(${code(locale)}, { dateStyle: "full", timeStyle: "short", timeZone: "Europe/Paris" }).formatToParts(new Date(1709823849123))`);
}
for (const locale of ["en", "zh", "de", "fr", "es", "ja", "ko", "pt", "ru", "zh-Hans", "zh-Hant", "it", "nl", "sv"]) {
  expressions.push(`[(1234567.89).toLocaleString(${code(locale)}), new Date(1709823849123).toLocaleString(${code(locale)}), new Intl.NumberFormat(${code(locale)}).resolvedOptions().locale]`);
}
const WORDS = {
  en: ["résumé", "resume", "Resume", "zebra", "Äpfel", "apple", "Apple", "item 10", "item 9", "item-9", "co-op", "coop", "CO-OP", "_x", "$5", "5", "ß", "ss", "naïve", "", " a", "a b", "a-b", "😀", "水"],
  zh: ["中国", "北京", "上海", "广州", "阿里", "张三", "李四", "王五", "重庆", "abc", "ABC", "一", "二", "三", "十", "银行", "行走", "123", "，", "中文"],
  "zh-TW": ["中國", "北京", "上海", "廣州", "一", "二", "三", "張", "李", "王"],
  ja: ["さくら", "サクラ", "桜", "か", "が", "カ", "ガ", "東京", "大阪", "ー", "アイ", "あい", "ｱｲ", "ば", "ぱ", "は", "日本"],
  ko: ["가나", "나라", "다리", "한국", "서울", "부산", "abc", "漢字", "ㄱ"], de: ["Zebra", "Ärger", "Arger", "ärger", "Öl", "Oel", "Ofen", "über", "uber", "Straße", "Strasse"],
  fr: ["cote", "côte", "coté", "côté", "Cote", "œuvre", "oeuvre", "été", "ete"], es: ["nube", "ñandú", "nz", "chico", "cosa", "llama", "luz", "árbol"], sv: ["zebra", "åka", "ärlig", "öra", "ö", "o", "w", "v"],
  ru: ["ёлка", "елка", "яблоко", "Елка", "Ёлка", "жук", "еж"], pt: ["ação", "acao", "maçã", "maca", "água"], da: ["aa", "å", "ø", "z", "æ"], cs: ["chata", "cena", "had", "č"], tr: ["ı", "i", "I", "İ", "ç", "c"],
};
for (const [locale, words] of Object.entries(WORDS)) {
  for (const options of [undefined, { numeric: true }, { sensitivity: "base" }, { sensitivity: "accent" }, { sensitivity: "case" }, { caseFirst: "upper" }, { ignorePunctuation: true }]) {
    expressions.push(`(() => { const w = ${code(words)}, c = new Intl.Collator(${code(locale)}${options ? `, ${code(options)}` : ""}); return [w.toSorted(c.compare), w.map(a => w.map(b => Math.sign(a.localeCompare(b, ${code(locale)}${options ? `, ${code(options)}` : ""}))).join()).join(";")]; })()`);
  }
}
for (const locale of LOCALES) for (const type of /^es/.test(locale) ? ["cardinal"] : ["cardinal", "ordinal"]) expressions.push(`[0, 1, 2, 3, 4, 5, 11, 12, 21, 22, 23, 101, 111, 1.5, 0.5, 1000000, -1].map(n => new Intl.PluralRules(${code(locale)}, { type: ${code(type)} }).select(n)).join()`);
expressions.push(`[0, 1, 1.5, 2].map(n => new Intl.PluralRules("en", { minimumFractionDigits: 1 }).select(n)).join()`);
for (const locale of ["tr", "az", "lt", "el", "de", "en", "nl"]) expressions.push(`["iıİI", "Straße ĳ", "ά έ Άλφα ΟΔΟΣ", "i̇́ ì"].map(s => [s.toLocaleUpperCase(${code(locale)}), s.toLocaleLowerCase(${code(locale)})])`);
expressions.push(`[1234.5, new Date(0), null, undefined, 7n].toLocaleString("de-DE")`, `new Float64Array([1234.5]).toLocaleString("fr-FR", { minimumFractionDigits: 2 })`,
  `Intl.getCanonicalLocales(["EN-us", "zh-hans-cn", "en-US"])`, `new Intl.NumberFormat("en-US").format("12345678901234567890.5")`, `["b", "a", "C"].sort(Intl.Collator("en").compare)`,
  `new Intl.DateTimeFormat("en-US", { timeZone: "asia/tokyo" }).resolvedOptions().timeZone`, `new Intl.NumberFormat("de").format(1234.5)`);

const norm = (x) => JSON.stringify(x, (_, v) => (typeof v === "bigint" ? String(v) : v));
Object.assign(globalThis, { N: (0, eval)(NUMBERS), D: (0, eval)(DATES) });
const rows = [`N = ${NUMBERS}, D = ${DATES}\n`];
for (const expression of expressions) rows.push(`${expression}\t${norm((0, eval)(`(${expression})`))}\n`);
Deno.writeTextFileSync("crates/sandbox/data/intl.tsv", rows.join(""));
console.log(rows.length, "expressions");
