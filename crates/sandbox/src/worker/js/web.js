// The part of the web platform that capabilities may expect: URL, text and base64 coding, structuredClone, events and
// aborting, crypto, Buffer in small. What is absent says so and names a way out.
(function (native, host) {
  "use strict";
  const { hidden } = host;
  const define = (name, value) => hidden(globalThis, name, value);
  const tagged = (proto, tag) => Object.defineProperty(proto, Symbol.toStringTag, { value: tag, configurable: true });

  // ---- errors --------------------------------------------------------------------------------------------------

  class DOMException extends Error {
    #name;
    constructor(message = "", name = "Error") {
      super(message);
      this.#name = String(typeof name === "object" && name !== null ? (name.name ?? "Error") : name);
    }
    get name() { return this.#name; }
    get code() { return { AbortError: 20, TimeoutError: 23, DataCloneError: 25, InvalidCharacterError: 5 }[this.#name] ?? 0; }
  }
  define("DOMException", DOMException);

  class PermissionError extends Error {
    get name() { return "PermissionError"; }
  }
  define("PermissionError", PermissionError);

  // ---- URL -----------------------------------------------------------------------------------------------------

  const FIELDS = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];
  const encodeForm = (s) => native.encodeForm(String(s).toWellFormed());

  class URLSearchParams {
    #pairs = [];
    #url = null;
    constructor(init = "") {
      if (typeof init === "object" && init !== null) {
        if (typeof init[Symbol.iterator] === "function") {
          for (const pair of init) {
            const [name, value, ...more] = pair;
            if (more.length > 0 || [...pair].length !== 2) throw new TypeError("each pair must be [name, value]");
            this.#pairs.push([String(name), String(value)]);
          }
        } else {
          for (const name of Object.keys(init)) this.#pairs.push([name, String(init[name])]);
        }
      } else {
        this.#parse(String(init));
      }
    }
    #parse(text) {
      this.#pairs = native.parseForm((text.startsWith("?") ? text.slice(1) : text).toWellFormed());
    }
    static _of(url, text) {
      const params = new URLSearchParams(text);
      params.#url = url;
      return params;
    }
    static _reset(params, text) { params.#parse(text); }
    #changed() { if (this.#url !== null) this.#url._query(this.toString()); }
    get size() { return this.#pairs.length; }
    append(name, value) { this.#pairs.push([String(name), String(value)]); this.#changed(); }
    delete(name, value) {
      this.#pairs = this.#pairs.filter(([n, v]) => n !== String(name) || (value !== undefined && v !== String(value)));
      this.#changed();
    }
    get(name) { return this.#pairs.find(([n]) => n === String(name))?.[1] ?? null; }
    getAll(name) { return this.#pairs.filter(([n]) => n === String(name)).map(([, v]) => v); }
    has(name, value) { return this.#pairs.some(([n, v]) => n === String(name) && (value === undefined || v === String(value))); }
    set(name, value) {
      const at = this.#pairs.findIndex(([n]) => n === String(name));
      if (at < 0) { this.append(name, value); return; }
      this.#pairs[at][1] = String(value);
      this.#pairs = this.#pairs.filter(([n], i) => i <= at || n !== String(name));
      this.#changed();
    }
    sort() { this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#changed(); }
    forEach(f, self) { for (const [name, value] of this) f.call(self, value, name, this); }
    *entries() { for (const [name, value] of this.#pairs) yield [name, value]; }
    *keys() { for (const [name] of this.#pairs) yield name; }
    *values() { for (const [, value] of this.#pairs) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map(([n, v]) => `${encodeForm(n)}=${encodeForm(v)}`).join("&"); }
    toJSON() { return Object.fromEntries(this.#pairs); }
  }
  tagged(URLSearchParams.prototype, "URLSearchParams");

  class URL {
    #parts;
    #params;
    constructor(input, base) {
      const parts = native.urlParse(String(input).toWellFormed(), base === undefined ? undefined : String(base).toWellFormed());
      if (parts === undefined) {
        const error = new TypeError("Invalid URL");
        error.code = "ERR_INVALID_URL";
        error.input = String(input);
        throw error;
      }
      this.#parts = parts;
    }
    static canParse(input, base) { try { new URL(input, base); return true; } catch { return false; } }
    static parse(input, base) { try { return new URL(input, base); } catch { return null; } }
    get searchParams() { return (this.#params ??= URLSearchParams._of(this, this.#parts[9])); }
    _query(text) { this.#parts = native.urlSet(this.#parts[0], "search", text) ?? this.#parts; }
    static _get(url, i) { return url.#parts[i]; }
    static _set(url, field, value) {
      const parts = native.urlSet(url.#parts[0], field, String(value).toWellFormed());
      if (parts === undefined) { if (field === "href") throw new TypeError("Invalid URL"); return; }
      url.#parts = parts;
      if (url.#params && (field === "href" || field === "search")) URLSearchParams._reset(url.#params, parts[9]);
    }
    toString() { return this.#parts[0]; }
    toJSON() { return this.#parts[0]; }
  }
  FIELDS.forEach((field, i) => {
    const { _get, _set } = URL;
    Object.defineProperty(URL.prototype, field, {
      get() { return _get(this, i); },
      set: field === "origin" ? undefined : function (value) { _set(this, field, value); },
      enumerable: true,
      configurable: true,
    });
  });
  for (const name of ["_get", "_set"]) delete URL[name];
  tagged(URL.prototype, "URL");
  define("URL", URL);
  define("URLSearchParams", URLSearchParams);

  // ---- text and bytes ------------------------------------------------------------------------------------------

  const { bytesOf } = host;

  class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return native.encodeUtf8(String(text).toWellFormed()); }
    encodeInto(text, target) {
      let read = 0, written = 0;
      for (const c of String(text).toWellFormed()) {
        const bytes = native.encodeUtf8(c);
        if (written + bytes.length > target.length) break;
        target.set(bytes, written);
        written += bytes.length;
        read += c.length;
      }
      return { read, written };
    }
  }
  tagged(TextEncoder.prototype, "TextEncoder");
  define("TextEncoder", TextEncoder);

  class TextDecoder {
    #fatal; #ignoreBOM; #rest = new Uint8Array(0); #started = false;
    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      if (!/^\s*(utf-?8|unicode-1-1-utf-8)\s*$/i.test(label)) {
        throw new RangeError(`TextDecoder: the encoding ${label} is not available here; only utf-8 is`);
      }
      this.#fatal = Boolean(fatal);
      this.#ignoreBOM = Boolean(ignoreBOM);
    }
    get encoding() { return "utf-8"; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }
    decode(data = new Uint8Array(0), { stream = false } = {}) {
      let bytes = bytesOf(data);
      if (this.#rest.length > 0) {
        const joined = new Uint8Array(this.#rest.length + bytes.length);
        joined.set(this.#rest);
        joined.set(bytes, this.#rest.length);
        bytes = joined;
      }
      const [text, left] = native.decodeUtf8(bytes, this.#fatal, Boolean(stream));
      if (text === null) throw new TypeError("The encoded data was not valid for encoding utf-8");
      this.#rest = stream && left > 0 ? bytes.slice(bytes.length - left) : new Uint8Array(0);
      const bom = !this.#started && !this.#ignoreBOM && text.startsWith("\ufeff");
      this.#started = Boolean(stream) && (this.#started || text.length > 0);
      return bom ? text.slice(1) : text;
    }
  }
  tagged(TextDecoder.prototype, "TextDecoder");
  define("TextDecoder", TextDecoder);

  function latin1(text, name) {
    const s = String(text);
    const bytes = new Uint8Array(s.length);
    for (let i = 0; i < s.length; i++) {
      const c = s.charCodeAt(i);
      if (c > 255) throw new DOMException(`${name}: character outside Latin1; encode to bytes first (Buffer.from(text, "utf8").toString("base64"))`, "InvalidCharacterError");
      bytes[i] = c;
    }
    return bytes;
  }
  function fromLatin1(bytes) {
    let out = "";
    for (let i = 0; i < bytes.length; i += 8192) out += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return out;
  }
  define("btoa", function btoa(text) { return native.toBase64(latin1(text, "btoa")); });
  define("atob", function atob(text) {
    const bytes = native.fromBase64(String(text).replace(/[\t\n\f\r ]/g, ""));
    if (bytes === undefined) throw new DOMException("The string to be decoded is not correctly encoded.", "InvalidCharacterError");
    return fromLatin1(bytes);
  });

  // ---- Buffer, as far as code that converts between text and bytes needs it --------------------------------------

  const hex = (bytes) => { let out = ""; for (const b of bytes) out += (b < 16 ? "0" : "") + b.toString(16); return out; };
  const ENCODINGS = "utf8, hex, base64, base64url, latin1, binary, ascii, utf16le";
  const encodingOf = (name) => {
    const known = { "utf8": "utf8", "utf-8": "utf8", hex: "hex", base64: "base64", base64url: "base64url", latin1: "latin1",
      binary: "latin1", ascii: "ascii", utf16le: "utf16le", "utf-16le": "utf16le", ucs2: "utf16le", "ucs-2": "utf16le" };
    const encoding = known[String(name ?? "utf8").toLowerCase()];
    if (encoding === undefined) throw new TypeError(`Unknown encoding: ${name} (there are ${ENCODINGS})`);
    return encoding;
  };
  function toBytes(text, name) {
    switch (encodingOf(name)) {
      case "utf8": return native.encodeUtf8(text.toWellFormed());
      case "hex": {
        const digits = /^(?:[0-9a-f]{2})*/i.exec(text)[0];
        return Uint8Array.from({ length: digits.length / 2 }, (_, i) => parseInt(digits.slice(2 * i, 2 * i + 2), 16));
      }
      case "base64": case "base64url": {
        const plain = text.replaceAll("-", "+").replaceAll("_", "/").replace(/=.*$/s, "").replace(/[^A-Za-z0-9+/]/g, "");
        return native.fromBase64(plain.length % 4 === 1 ? plain.slice(0, -1) : plain) ?? new Uint8Array(0);
      }
      case "utf16le": {
        const bytes = new Uint8Array(text.length * 2);
        for (let i = 0; i < text.length; i++) { bytes[2 * i] = text.charCodeAt(i) & 255; bytes[2 * i + 1] = text.charCodeAt(i) >> 8; }
        return bytes;
      }
      default: return Uint8Array.from(text, (c) => c.charCodeAt(0) & 255);
    }
  }
  class Buffer extends Uint8Array {
    static from(data, encoding, length) {
      if (typeof data === "string") {
        const bytes = toBytes(data, encoding);
        return new Buffer(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      }
      if (host.isBuffer(data)) return new Buffer(data, encoding, length);
      if (data?.type === "Buffer" && Array.isArray(data.data)) return Buffer.from(data.data);
      const out = new Buffer(data.length);
      out.set(Array.from(data, (x) => x & 255));
      return out;
    }
    static alloc(size, fill = 0, encoding) {
      const out = new Buffer(size);
      if (fill !== 0) out.fill(fill, encoding);
      return out;
    }
    static allocUnsafe(size) { return new Buffer(size); }
    static isBuffer(x) { return x instanceof Buffer; }
    static isEncoding(name) { try { encodingOf(name); return true; } catch { return false; } }
    static byteLength(data, encoding) { return typeof data === "string" ? toBytes(data, encoding).length : data.byteLength; }
    static compare(a, b) {
      for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
      return Math.sign(a.length - b.length);
    }
    static concat(list, total = list.reduce((sum, part) => sum + part.length, 0)) {
      const out = new Buffer(total);
      let at = 0;
      for (const part of list) {
        if (at >= total) break;
        out.set(part.subarray(0, total - at), at);
        at += part.length;
      }
      return out;
    }
    toString(encoding, start = 0, end = this.length) {
      const bytes = this.subarray(start, end);
      switch (encodingOf(encoding)) {
        case "utf8": return native.decodeUtf8(bytes, false, false)[0];
        case "hex": return hex(bytes);
        case "base64": return native.toBase64(bytes);
        case "base64url": return native.toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
        case "ascii": return fromLatin1(Uint8Array.from(bytes, (b) => b & 127));
        case "utf16le": {
          let out = "";
          for (let i = 0; i + 1 < bytes.length; i += 2) out += String.fromCharCode(bytes[i] | (bytes[i + 1] << 8));
          return out;
        }
        default: return fromLatin1(bytes);
      }
    }
    toJSON() { return { type: "Buffer", data: Array.from(this) }; }
    equals(other) { return Buffer.compare(this, other) === 0; }
    compare(other) { return Buffer.compare(this, other); }
    write(text, offset = 0, encoding = "utf8") {
      const bytes = toBytes(text, encoding).subarray(0, this.length - offset);
      this.set(bytes, offset);
      return bytes.length;
    }
    fill(value, ...rest) {
      if (typeof value !== "string") return super.fill(value, ...rest);
      const bytes = toBytes(value, typeof rest[0] === "string" ? rest[0] : "utf8");
      for (let i = 0; bytes.length > 0 && i < this.length; i++) this[i] = bytes[i % bytes.length];
      return this;
    }
    slice(start, end) { return this.subarray(start, end); }
  }
  const view = (buffer) => new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  for (const [name, get, set, size] of [
    ["UInt8", "getUint8", "setUint8", 1], ["Int8", "getInt8", "setInt8", 1],
    ...["16", "32"].flatMap((bits) => ["Int", "Uint"].map((kind) => [`${kind === "Uint" ? "UInt" : kind}${bits}`, `get${kind}${bits}`, `set${kind}${bits}`, bits / 8])),
    ["Float", "getFloat32", "setFloat32", 4], ["Double", "getFloat64", "setFloat64", 8],
    ["BigInt64", "getBigInt64", "setBigInt64", 8], ["BigUInt64", "getBigUint64", "setBigUint64", 8],
  ]) {
    for (const [suffix, little] of size === 1 ? [["", true]] : [["LE", true], ["BE", false]]) {
      hidden(Buffer.prototype, `read${name}${suffix}`, function (offset = 0) { return view(this)[get](offset, little); });
      hidden(Buffer.prototype, `write${name}${suffix}`, function (value, offset = 0) { view(this)[set](offset, value, little); return offset + size; });
    }
  }
  define("Buffer", Buffer);

  // ---- structuredClone -----------------------------------------------------------------------------------------

  function clone(x, seen) {
    if (typeof x === "function" || typeof x === "symbol") throw new DOMException(`${String(x)} could not be cloned.`, "DataCloneError");
    if (typeof x !== "object" || x === null) return x;
    if (seen.has(x)) return seen.get(x);
    const keep = (copy) => { seen.set(x, copy); return copy; };
    if (host.isDate(x)) return keep(new Date(x.getTime()));
    if (host.isRegExp(x)) return keep(new RegExp(x.source, x.flags));
    if (host.isBuffer(x)) return keep(x.slice(0));
    const tag = host.typedTag(x);
    if (tag !== undefined) return keep(new globalThis[tag](clone(x.buffer, seen), x.byteOffset, x.length));
    if (x instanceof DataView) return keep(new DataView(clone(x.buffer, seen), x.byteOffset, x.byteLength));
    if (host.isMap(x)) {
      const copy = keep(new Map());
      for (const [key, value] of [...x]) copy.set(clone(key, seen), clone(value, seen));
      return copy;
    }
    if (host.isSet(x)) {
      const copy = keep(new Set());
      for (const value of [...x]) copy.add(clone(value, seen));
      return copy;
    }
    if (x instanceof Error) {
      const kinds = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
      const copy = keep(new (kinds[x.name] ?? Error)(x.message));
      if ("cause" in x) hidden(copy, "cause", clone(x.cause, seen));
      hidden(copy, "stack", x.stack);
      return copy;
    }
    if (x instanceof Promise || x instanceof WeakMap || x instanceof WeakSet || x instanceof WeakRef) {
      throw new DOMException(`${Object.prototype.toString.call(x)} could not be cloned.`, "DataCloneError");
    }
    const plain = host.unbox(x);
    if (plain !== undefined) return keep(Object(plain));
    const copy = keep(Array.isArray(x) ? new Array(x.length) : {});
    for (const key of Object.keys(x)) {
      Object.defineProperty(copy, key, { value: clone(x[key], seen), writable: true, enumerable: true, configurable: true });
    }
    return copy;
  }
  define("structuredClone", function structuredClone(value) {
    if (arguments.length === 0) throw new TypeError("structuredClone needs a value");
    return clone(value, new Map());
  });

  // ---- events and aborting -------------------------------------------------------------------------------------

  class Event {
    constructor(type, init = {}) { this.type = String(type); this.target = null; this.cancelable = Boolean(init.cancelable); this.defaultPrevented = false; }
    preventDefault() { this.defaultPrevented = this.cancelable; }
  }
  class EventTarget {
    #listeners = [];
    addEventListener(type, listener, options = {}) {
      if (listener === null || listener === undefined) return;
      if (this.#listeners.some((l) => l.type === type && l.listener === listener)) return;
      this.#listeners.push({ type, listener, once: Boolean(options?.once) });
    }
    removeEventListener(type, listener) { this.#listeners = this.#listeners.filter((l) => l.type !== type || l.listener !== listener); }
    dispatchEvent(event) {
      event.target = this;
      const own = this[`on${event.type}`];
      if (typeof own === "function") own.call(this, event);
      for (const { type, listener, once } of [...this.#listeners]) {
        if (type !== event.type) continue;
        if (once) this.removeEventListener(type, listener);
        if (typeof listener === "function") listener.call(this, event);
        else listener.handleEvent(event);
      }
      return !event.defaultPrevented;
    }
  }
  const unlock = Symbol("construct");
  class AbortSignal extends EventTarget {
    #aborted = false; #reason = undefined;
    onabort = null;
    constructor(key) { super(); if (key !== unlock) throw new TypeError("Illegal constructor: use new AbortController()"); }
    get aborted() { return this.#aborted; }
    get reason() { return this.#reason; }
    throwIfAborted() { if (this.#aborted) throw this.#reason; }
    static _fire(signal, reason) {
      if (signal.#aborted) return;
      signal.#aborted = true;
      signal.#reason = reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
      signal.dispatchEvent(new Event("abort"));
    }
    static abort(reason) { const signal = new AbortSignal(unlock); fire(signal, reason); return signal; }
    static timeout(ms) {
      const signal = new AbortSignal(unlock);
      setTimeout(() => fire(signal, new DOMException("The operation was aborted due to timeout", "TimeoutError")), ms);
      return signal;
    }
    static any(signals) {
      const signal = new AbortSignal(unlock);
      for (const one of signals) {
        if (one.aborted) { fire(signal, one.reason); break; }
        one.addEventListener("abort", () => fire(signal, one.reason), { once: true });
      }
      return signal;
    }
  }
  const fire = AbortSignal._fire;
  delete AbortSignal._fire;
  class AbortController {
    #signal = new AbortSignal(unlock);
    get signal() { return this.#signal; }
    abort(reason) { fire(this.#signal, reason); }
  }
  define("Event", Event);
  define("EventTarget", EventTarget);
  define("AbortSignal", AbortSignal);
  define("AbortController", AbortController);

  // ---- crypto and clock ----------------------------------------------------------------------------------------

  const uuid = () => {
    const b = native.random(16);
    b[6] = (b[6] & 15) | 64;
    b[8] = (b[8] & 63) | 128;
    const h = hex(b);
    return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
  };
  const algorithm = (name) => {
    const text = String(typeof name === "object" && name !== null ? name.name : name).toUpperCase();
    if (!["SHA-1", "SHA-256", "SHA-384", "SHA-512"].includes(text)) {
      throw new DOMException(`crypto.subtle: ${text} is not available here (there are SHA-1, SHA-256, SHA-384, SHA-512 and HMAC with them)`, "NotSupportedError");
    }
    return text;
  };
  const bufferOf = (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  const keys = new WeakMap();
  class CryptoKey { constructor(key) { if (key !== unlock) throw new TypeError("Illegal constructor"); } get type() { return "secret"; } }
  const hmac = (key) => {
    const secret = keys.get(key);
    if (secret === undefined) throw new DOMException("crypto.subtle: only HMAC keys made by importKey can sign here", "NotSupportedError");
    return secret;
  };
  const subtle = {
    async digest(name, data) { return bufferOf(native.digest(algorithm(name), bytesOf(data))); },
    async importKey(form, data, { name, hash } = {}, extractable, usages) {
      if (form !== "raw" || String(name).toUpperCase() !== "HMAC") {
        throw new DOMException("crypto.subtle.importKey: only raw HMAC keys are available here", "NotSupportedError");
      }
      const key = new CryptoKey(unlock);
      keys.set(key, { hash: algorithm(hash), bytes: bytesOf(data).slice() });
      return key;
    },
    async sign(name, key, data) { const { hash, bytes } = hmac(key); return bufferOf(native.hmac(hash, bytes, bytesOf(data))); },
    async verify(name, key, signature, data) {
      const { hash, bytes } = hmac(key);
      const expected = native.hmac(hash, bytes, bytesOf(data)), given = bytesOf(signature);
      let difference = expected.length ^ given.length;
      for (let i = 0; i < expected.length; i++) difference |= expected[i] ^ (given[i] ?? 0);
      return difference === 0;
    },
  };
  for (const name of ["encrypt", "decrypt", "generateKey", "exportKey", "deriveBits", "deriveKey", "wrapKey", "unwrapKey"]) {
    subtle[name] = async () => { throw new DOMException(`crypto.subtle.${name} is not available here; digest and HMAC are`, "NotSupportedError"); };
  }
  define("CryptoKey", CryptoKey);
  define("crypto", {
    randomUUID: uuid,
    getRandomValues(array) {
      if (!ArrayBuffer.isView(array) || /Float|DataView/.test(array.constructor.name)) throw new TypeError("getRandomValues needs an integer typed array");
      if (array.byteLength > 65536) throw new DOMException("more than 65536 bytes asked for", "QuotaExceededError");
      bytesOf(array).set(native.random(array.byteLength));
      return array;
    },
    subtle,
  });
  define("performance", { now: () => native.now(), get timeOrigin() { return Date.now() - native.now(); } });

  // ---- what is absent ------------------------------------------------------------------------------------------

  // They stay undefined, so that `typeof process` answers truly; the error of using one is explained in `fault`.
  const files = "Use ctx.read, ctx.write, ctx.list and fetch (each with a grant)";
  const net = "Use fetch (with a network grant for the host)";
  const whole = "Bodies come and go whole: text(), json(), arrayBuffer(), URLSearchParams; or take runtime: \"deno\"";
  host.absent = {
    __proto__: null,
    process: "there is no environment, no arguments and no exit here. Take values as arguments of run(args, ctx) and return the result",
    require: "a capability is one file without modules. Globals such as fetch, URL, Buffer and crypto need no import",
    Deno: files, Bun: files, fs: files, path: files,
    axios: net, http: net, https: net, XMLHttpRequest: net, WebSocket: net, EventSource: net,
    ReadableStream: whole, WritableStream: whole, TransformStream: whole, Blob: whole, File: whole, FormData: whole,
    MessageChannel: "A capability runs on one thread", BroadcastChannel: "A capability runs on one thread",
    Worker: "A capability runs on one thread",
    WebAssembly: "Write it in TypeScript",
    window: "There is no page here. Use globalThis",
    document: "There is no page here",
    localStorage: "Nothing is kept between runs. Use ctx.write and ctx.read (with a grant)",
    sessionStorage: "Nothing is kept between runs. Use ctx.write and ctx.read (with a grant)",
    Temporal: "Use Date (the time zone is UTC)",
    moment: "Use Date (the time zone is UTC)",
    dayjs: "Use Date (the time zone is UTC)",
    math: "Use Math, or BigInt for whole numbers",
    _: "Write what you need of it into this file",
    __dirname: "A capability has no folder of its own",
    __filename: "A capability has no file of its own",
  };
  define("module", { exports: {} });
  define("exports", globalThis.module.exports);
  define("navigator", { userAgent: "jarvis", language: "en-US", languages: ["en-US"], hardwareConcurrency: 1 });
  define("self", globalThis);
  define("global", globalThis);
})
