// The frame around the code: arguments in, result out, console, timers. Evaluated before anybody's code, so it keeps
// its own references to what that code may replace.
(function (native, host) {
  "use strict";
  const { call } = Function.prototype;
  const uncurry = (f) => call.bind(f);
  const apply = Reflect.apply;
  const stringify = JSON.stringify, parse = JSON.parse;
  const isArray = Array.isArray, keysOf = Object.keys, protoOf = Object.getPrototypeOf;
  const isInteger = Number.isInteger, isSafe = Number.isSafeInteger;
  const getTime = uncurry(Date.prototype.getTime), toISO = uncurry(Date.prototype.toISOString);
  const getter = (proto, name) => uncurry(Object.getOwnPropertyDescriptor(proto, name).get);
  const mapSize = getter(Map.prototype, "size"), setSize = getter(Set.prototype, "size");
  const mapEach = uncurry(Map.prototype.forEach), setEach = uncurry(Set.prototype.forEach);
  const typedTag = getter(protoOf(Uint8Array.prototype), Symbol.toStringTag);
  const regexSource = getter(RegExp.prototype, "source"), regexFlags = getter(RegExp.prototype, "flags");
  const bufferLength = getter(ArrayBuffer.prototype, "byteLength");
  const boxed = [Number.prototype.valueOf, String.prototype.valueOf, Boolean.prototype.valueOf, BigInt.prototype.valueOf]
    .map(uncurry);
  const wellFormed = uncurry(String.prototype.toWellFormed), slice = uncurry(String.prototype.slice);
  const join = uncurry(Array.prototype.join), push = uncurry(Array.prototype.push);
  const bigToString = uncurry(BigInt.prototype.toString), symbolToString = uncurry(Symbol.prototype.toString);
  const NativePromise = Promise;
  const has = uncurry(Object.prototype.hasOwnProperty);
  const hidden = (target, name, value) =>
    Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: false });

  // What class an object really is, whatever its prototype says.
  const real = (check) => (x) => { try { check(x); return true; } catch { return false; } };
  const isDate = real(getTime), isMap = real(mapSize), isSet = real(setSize), isBuffer = real(bufferLength);
  const isRegExp = (x) => x !== RegExp.prototype && real(regexSource)(x);
  const isPromise = (x) => x instanceof NativePromise;
  const unbox = (x) => {
    for (const valueOf of boxed) { try { return valueOf(x); } catch { /* not of this kind */ } }
    return undefined;
  };

  // ---- the result, as JSON text --------------------------------------------------------------------------------

  const DEEPEST = 100;
  const kindOf = (x) => (isPromise(x) ? "a promise: await it" : typeof x === "function" ? "a function" : `a ${typeof x}`);

  // More than the job may hand out is not even built.
  let most = Infinity, total = 0;
  function full() {
    native.full();
    throw new RangeError("more output than is allowed");
  }

  function text(s) {
    total += s.length;
    if (total > most) full();
    return stringify(wellFormed(s));
  }

  function number(x, path) {
    if (x !== x || x === Infinity || x === -Infinity) {
      throw new RangeError(`${path} is ${x}, which is no result: check the calculation`);
    }
    if (isInteger(x) && !isSafe(x)) {
      throw new RangeError(
        `${path} is a Number beyond 2^53-1 (${x}), where whole numbers are no longer exact; ` +
          "compute it with BigInt (for example 1n * …); an approximate quantity is returned as text: x.toPrecision(12)",
      );
    }
    return stringify(x);
  }

  function big(x) {
    return x >= -9007199254740991n && x <= 9007199254740991n ? bigToString(x) : `"${bigToString(x)}"`;
  }

  function encode(x, path, above) {
    switch (typeof x) {
      case "string": return text(x);
      case "number": return number(x, path);
      case "bigint": return big(x);
      case "boolean": return x ? "true" : "false";
      case "undefined": return undefined;
      case "object": break;
      default: throw new TypeError(`${path} is ${kindOf(x)}, which is no data`);
    }
    if (x === null) return "null";
    if (above.length >= DEEPEST) throw new RangeError(`${path} is nested more than ${DEEPEST} levels deep`);
    for (let i = 0; i < above.length; i++) {
      if (above[i] === x) throw new TypeError(`${path} contains itself (a cycle), so it is no data`);
    }
    push(above, x);
    const out = encodeObject(x, path, above);
    above.length--;
    return out;
  }

  // The text of a key. Two keys of one object that read the same would lose the first one's value.
  function unique(seen, key, path) {
    const name = text(key);
    if (seen[name] === true) throw new TypeError(`${path} has two keys that are both ${name} in a result`);
    seen[name] = true;
    return name;
  }

  function list(values, path, above) {
    if (values.length > most) full();
    const parts = [];
    for (let i = 0; i < values.length; i++) push(parts, encode(values[i], `${path}[${i}]`, above) ?? "null");
    return `[${join(parts, ",")}]`;
  }

  function encodeObject(x, path, above) {
    if (isArray(x)) return list(x, path, above);
    if (isDate(x)) {
      if (getTime(x) !== getTime(x)) throw new RangeError(`${path} is an invalid Date: its text did not parse`);
      return stringify(toISO(x));
    }
    if (isMap(x)) {
      const parts = [], seen = { __proto__: null };
      mapEach(x, (value, key) => {
        if (typeof key === "symbol" || (typeof key === "object" && key !== null) || typeof key === "function") {
          throw new TypeError(`${path} is a Map with ${typeof key} keys; only text and numbers can be keys of a result`);
        }
        const encoded = encode(value, `${path}.${String(key)}`, above);
        if (encoded !== undefined) push(parts, `${unique(seen, String(key), path)}:${encoded}`);
      });
      return `{${join(parts, ",")}}`;
    }
    if (isSet(x)) {
      const values = [];
      setEach(x, (value) => push(values, value));
      return list(values, path, above);
    }
    if (isBuffer(x)) return stringify(native.toBase64(new Uint8Array(x)));
    const tag = typedTag(x);
    if (tag === "Uint8Array" || tag === "Uint8ClampedArray") return stringify(native.toBase64(new Uint8Array(x)));
    if (tag !== undefined) return list(x, path, above);
    if (isPromise(x)) throw new TypeError(`${path} is a promise: await it`);
    if (x instanceof Error) throw new TypeError(`${path} is an error (${x.name}: ${x.message}): throw it instead`);
    if (isRegExp(x)) throw new TypeError(`${path} is a regular expression, which is no data`);
    if (x instanceof WeakMap || x instanceof WeakSet || x instanceof WeakRef) {
      throw new TypeError(`${path} is a weak collection, which is no data`);
    }
    const plain = unbox(x);
    if (plain !== undefined) return encode(plain, path, above);
    if (typeof x.toJSON === "function") return encode(x.toJSON(""), path, above);
    if (typeof x.next === "function") {
      throw new TypeError(`${path} is an iterator: make an array of it, as in [...values]`);
    }
    const parts = [], seen = { __proto__: null };
    const keys = keysOf(x);
    for (let i = 0; i < keys.length; i++) {
      const encoded = encode(x[keys[i]], `${path}.${keys[i]}`, above);
      if (encoded !== undefined) push(parts, `${unique(seen, keys[i], path)}:${encoded}`);
    }
    return `{${join(parts, ",")}}`;
  }

  host.result = (value) => {
    const encoded = encode(value, "the result", []);
    if (encoded === undefined) throw new TypeError("returned nothing (undefined): return a value");
    return encoded;
  };

  // The same for what another capability is given, which is no output: how much it may be is the broker's to say.
  host.data = (value, what) => {
    const before = [most, total];
    most = Infinity;
    try { return encode(value, what, []); } finally { [most, total] = before; }
  };

  // ---- console -------------------------------------------------------------------------------------------------

  const INSPECT_DEPTH = 4, WIDTH = 76, MOST_ITEMS = 200;

  function quote(s) {
    const body = slice(stringify(s), 1, -1).replaceAll('\\"', '"');
    if (!s.includes("'")) return `'${body}'`;
    return s.includes('"') ? (s.includes("`") ? `'${body.replaceAll("'", "\\'")}'` : `\`${body}\``) : `"${body}"`;
  }

  function wrap(open, parts, close, indent) {
    if (parts.length === 0) return open + close;
    const line = `${open} ${parts.join(", ")} ${close}`;
    if (line.length + indent.length <= WIDTH && !line.includes("\n")) return line;
    return `${open}\n${indent}  ${parts.join(`,\n${indent}  `)}\n${indent}${close}`;
  }

  function inspect(x, depth, indent, seen) {
    switch (typeof x) {
      case "string": return quote(x);
      case "bigint": return `${x}n`;
      case "symbol": return symbolToString(x);
      case "number": return Object.is(x, -0) ? "-0" : String(x);
      case "function": {
        const source = Function.prototype.toString.call(x);
        return source.startsWith("class") ? `[class ${x.name || "(anonymous)"}]` : `[Function${x.name ? `: ${x.name}` : " (anonymous)"}]`;
      }
      case "object": break;
      default: return String(x);
    }
    if (x === null) return "null";
    if (seen.includes(x)) return "[Circular *1]";
    if (isDate(x)) return getTime(x) === getTime(x) ? toISO(x) : "Invalid Date";
    if (isRegExp(x)) return `/${regexSource(x)}/${regexFlags(x)}`;
    if (x instanceof Error) return `${x.name}: ${x.message}${x.stack ? `\n${String(x.stack).trimEnd()}` : ""}`;
    const name = x.constructor?.name;
    if (depth > INSPECT_DEPTH) return isArray(x) ? "[Array]" : `[${name || "Object"}]`;
    const inner = [...seen, x], further = `${indent}  `;
    const show = (value) => inspect(value, depth + 1, further, inner);
    const some = (values, shown) => {
      const parts = values.slice(0, MOST_ITEMS).map(shown);
      if (values.length > MOST_ITEMS) parts.push(`... ${values.length - MOST_ITEMS} more items`);
      return parts;
    };
    if (isArray(x)) return wrap("[", some(x, show), "]", indent);
    if (isMap(x)) {
      return wrap(`Map(${mapSize(x)}) {`, some([...x], ([k, v]) => `${show(k)} => ${show(v)}`), "}", indent);
    }
    if (isSet(x)) return wrap(`Set(${setSize(x)}) {`, some([...x], show), "}", indent);
    if (isPromise(x)) return "Promise { <pending> }";
    const tag = isBuffer(x) ? undefined : typedTag(x);
    if (tag !== undefined) return wrap(`${tag}(${x.length}) [`, some([...x], show), "]", indent);
    const plain = unbox(x);
    if (plain !== undefined) return `[${name}: ${inspect(plain, depth + 1, indent, inner)}]`;
    const label = name === undefined ? "[Object: null prototype] " : name === "Object" ? "" : `${name} `;
    const key = (k) => (/^[A-Za-z_$][\w$]*$/.test(k) ? k : quote(k));
    return label + wrap("{", some(keysOf(x), (k) => `${key(k)}: ${show(x[k])}`), "}", indent);
  }

  function format(values) {
    let start = 0, out = "";
    if (typeof values[0] === "string" && values.length > 1 && values[0].includes("%")) {
      start = 1;
      out = values[0].replace(/%([sdifjoOc%])/g, (whole, kind) => {
        if (kind === "%") return "%";
        if (start >= values.length) return whole;
        const value = values[start++];
        switch (kind) {
          case "s": return typeof value === "string" ? value : inspect(value, 3, "", []);
          case "d": return typeof value === "bigint" ? `${value}n` : String(Number(value));
          case "i": return typeof value === "bigint" ? `${value}n` : String(parseInt(value, 10));
          case "f": return String(parseFloat(value));
          case "j": return stringify(value);
          case "c": return "";
          default: return inspect(value, 0, "", []);
        }
      });
      if (start < values.length) out += " ";
    }
    const rest = values.slice(start).map((value) => (typeof value === "string" ? value : inspect(value, 0, "", [])));
    return out + rest.join(" ");
  }
  host.inspect = (value) => inspect(value, 0, "", []);

  let lines = null; // what a script printed by log and info: its result
  let indent = "";
  const print = (values) => {
    let line = format(values);
    if (indent) line = indent + line.replaceAll("\n", `\n${indent}`);
    // One unit too many is enough to be found out.
    native.print(wellFormed(line.length > most ? slice(line, 0, most + 1) : `${line}\n`));
    return line;
  };
  const say = (...values) => {
    const single = values.length === 1 ? values[0] : undefined;
    if (lines !== null && typeof single === "number" && isInteger(single) && !isSafe(single)) number(single, "the result");
    const line = print(values);
    if (lines !== null) push(lines, line);
  };
  const note = (...values) => void print(values);
  const counts = new Map(), watches = new Map();
  hidden(globalThis, "console", {
    log: say, info: say, debug: note, warn: note, error: note, trace: note,
    dir: (value) => say(value),
    table: (rows) => say(rows),
    assert: (ok, ...values) => { if (!ok) note("Assertion failed", ...values); },
    group: (...values) => { if (values.length > 0) note(...values); indent += "  "; },
    groupEnd: () => { indent = indent.slice(2); },
    count: (label = "default") => { counts.set(label, (counts.get(label) ?? 0) + 1); note(`${label}: ${counts.get(label)}`); },
    time: (label = "default") => void watches.set(label, native.now()),
    timeEnd: (label = "default") => note(`${label}: ${(native.now() - (watches.get(label) ?? 0)).toFixed(3)}ms`),
  });

  // ---- timers --------------------------------------------------------------------------------------------------

  const timers = [];
  let lastTimer = 0;
  function schedule(f, delay, repeat, values) {
    if (typeof f !== "function") throw new TypeError("the first argument of a timer must be a function");
    const wait = Math.max(Number(delay) || 0, repeat ? 1 : 0);
    const timer = { id: ++lastTimer, due: native.now() + wait, f, values, repeat: repeat ? wait : 0 };
    insert(timer);
    return timer.id;
  }
  function insert(timer) {
    let at = timers.length;
    while (at > 0 && timers[at - 1].due > timer.due) at--;
    timers.splice(at, 0, timer);
  }
  function clear(id) {
    const at = timers.findIndex((timer) => timer.id === id);
    if (at >= 0) timers.splice(at, 1);
  }
  hidden(globalThis, "setTimeout", function setTimeout(f, delay, ...values) { return schedule(f, delay, false, values); });
  hidden(globalThis, "setInterval", function setInterval(f, delay, ...values) { return schedule(f, delay, true, values); });
  hidden(globalThis, "setImmediate", function setImmediate(f, ...values) { return schedule(f, 0, false, values); });
  hidden(globalThis, "clearTimeout", function clearTimeout(id) { clear(id); });
  hidden(globalThis, "clearInterval", function clearInterval(id) { clear(id); });
  hidden(globalThis, "clearImmediate", function clearImmediate(id) { clear(id); });

  // Runs one due timer. Milliseconds until the next is due; 0 when one ran; -1 when there is none.
  host.timers = () => {
    if (timers.length === 0) return -1;
    const wait = timers[0].due - native.now();
    if (wait > 0) return wait;
    const timer = timers.shift();
    if (timer.repeat > 0) insert({ ...timer, due: native.now() + timer.repeat });
    apply(timer.f, undefined, timer.values);
    return 0;
  };

  // ---- the job -------------------------------------------------------------------------------------------------

  // The engine seeds Math.random when it starts, which all workers share; so each job seeds its own (xorshift128+).
  function seedRandom(seed) {
    const words = seed === undefined ? new BigUint64Array(native.random(16).buffer) : [BigInt(seed) ^ 0x9e3779b97f4a7c15n, BigInt(seed) + 1n];
    let [a, b] = words;
    const mask = 0xffffffffffffffffn;
    const random = () => {
      let x = a;
      const y = b;
      a = y;
      x ^= (x << 23n) & mask;
      b = x ^ y ^ (x >> 17n) ^ (y >> 26n);
      return Number(((b + y) & mask) >> 11n) / 9007199254740992;
    };
    for (let i = 0; i < 8; i++) random();
    hidden(Math, "random", random);
  }

  host.begin = (args, script, bytes, seed, now) => {
    most = bytes;
    seedRandom(seed);
    if (now !== undefined) host.fixDate(now);
    hidden(globalThis, "args", args);
    hidden(globalThis, "__workspace", ".");
    if (script) {
      lines = [];
      hidden(globalThis, "ctx", host.ctx);
    }
  };

  // An entry `add(a, b)` gets its arguments one by one when the arguments have these names.
  host.call = async (f, args, positional) => {
    if (typeof f !== "function") throw new TypeError(`the entry is ${f === null ? "null" : `a ${typeof f}`}, not a function`);
    if (positional.length > 0 && positional.some((name) => has(args, name))) {
      const values = positional.map((name) => (has(args, name) ? args[name] : undefined));
      return await f(...values, host.ctx);
    }
    return await f(args, host.ctx);
  };

  // What a script printed: JSON where it is JSON, else text.
  host.printed = () => {
    if (lines.length === 0) throw new TypeError("printed nothing: print the result with console.log, or return it from a function run");
    const all = join(lines, "\n");
    if (/^\s*-?\d+\s*$/.test(all)) return big(BigInt(all.trim()));
    let value;
    try { value = parse(all); } catch { return text(all); }
    return encode(value, "the result", []);
  };

  host.fault = (e) => {
    try {
      if (e instanceof Error || (typeof e === "object" && e !== null && typeof e.message === "string")) {
        const stack = typeof e.stack === "string" ? e.stack : "";
        const name = String(e.name || "Error"), message = wellFormed(String(e.message));
        const unknown = name === "ReferenceError" ? /^'?([\w$]+)'? is not defined$/.exec(message)?.[1] : undefined;
        const out = unknown === undefined ? undefined : host.absent[unknown];
        if (out !== undefined) return ["TypeError", `${unknown} is not available here. ${out}`, stack];
        return [name, message, stack];
      }
      return ["Error", wellFormed(typeof e === "string" ? e : `threw ${host.inspect(e)}`), ""];
    } catch {
      return ["Error", "threw a value that cannot be shown", ""];
    }
  };

  host.hidden = hidden;
  host.isDate = isDate;
  host.isMap = isMap;
  host.isSet = isSet;
  host.isBuffer = isBuffer;
  host.bytesOf = (data, what = "the value", wanted = "bytes (an ArrayBuffer or a typed array)") => {
    if (data instanceof Uint8Array) return data;
    if (isBuffer(data)) return new Uint8Array(data);
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    throw new TypeError(`${what} must be ${wanted}`);
  };
  host.isRegExp = isRegExp;
  host.typedTag = typedTag;
  host.unbox = unbox;
})
