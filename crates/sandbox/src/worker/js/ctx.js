// What a capability may ask the broker for: fetch, files, secrets, other capabilities. Each call is a message; the broker decides on it.
(function (native, host) {
  "use strict";
  const { hidden } = host;
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  // Less than the broker holds for one worker (`AT_ONCE` in `converse.rs`), so that it always reads what is printed.
  const AT_ONCE = 7;
  const pending = new Map(), queue = [];
  let last = 0, asked = 0;

  // Sends a request; the answer comes by `host.answer`.
  function ask(request, body) {
    return new Promise((resolve, reject) => {
      const id = ++last;
      pending.set(id, { resolve, reject });
      queue.push([id, stringify(request), body ?? new Uint8Array(0)]);
      send();
    });
  }
  function send() {
    while (asked < AT_ONCE && queue.length > 0) {
      const [id, head, body] = queue.shift();
      try {
        native.ask(id, head, body);
        asked++;
      } catch (e) {
        pending.get(id)?.reject(e);
        pending.delete(id);
      }
    }
  }
  const KINDS = { __proto__: null, TypeError, RangeError, PermissionError: globalThis.PermissionError };
  const named = (error, name) => {
    if (error.name !== name) hidden(error, "name", name);
    return error;
  };
  host.waiting = () => pending.size;
  host.answer = (id, head, body) => {
    const one = pending.get(id);
    pending.delete(id);
    asked--;
    send();
    const answer = parse(head);
    if (answer.error === undefined) { one?.resolve({ ...answer, body }); return; }
    const { name, message } = answer.error;
    if (name === "TimeoutError" || name === "AbortError") one?.reject(new DOMException(message, name));
    else one?.reject(named(new (KINDS[name] ?? Error)(message), name));
  };

  const utf8 = (bytes) => new TextDecoder().decode(bytes);
  function bytesOf(data, what) {
    if (typeof data === "string") return new TextEncoder().encode(data);
    return host.bytesOf(data, what, `text or bytes${typeof data === "object" ? " (JSON.stringify an object first)" : ""}`);
  }

  // ---- fetch ---------------------------------------------------------------------------------------------------

  const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
  class Headers {
    #all = new Map();
    constructor(init) {
      if (init === undefined || init === null) return;
      if (typeof init[Symbol.iterator] === "function") for (const [name, value] of init) this.append(name, value);
      else for (const name of Object.keys(init)) this.append(name, init[name]);
    }
    #name(name) {
      if (!TOKEN.test(String(name))) throw new TypeError(`Invalid header name: ${name}`);
      return String(name).toLowerCase();
    }
    #value(value) {
      const text = String(value).trim();
      if (/[\0\r\n]/.test(text)) throw new TypeError("Invalid header value");
      return text;
    }
    append(name, value) {
      const key = this.#name(name), text = this.#value(value);
      this.#all.set(key, this.#all.has(key) ? `${this.#all.get(key)}, ${text}` : text);
    }
    set(name, value) { this.#all.set(this.#name(name), this.#value(value)); }
    get(name) { return this.#all.get(this.#name(name)) ?? null; }
    has(name) { return this.#all.has(this.#name(name)); }
    delete(name) { this.#all.delete(this.#name(name)); }
    forEach(f, self) { for (const [name, value] of this) f.call(self, value, name, this); }
    *entries() { yield* [...this.#all].sort(([a], [b]) => (a < b ? -1 : 1)); }
    *keys() { for (const [name] of this.entries()) yield name; }
    *values() { for (const [, value] of this.entries()) yield value; }
    [Symbol.iterator]() { return this.entries(); }
  }

  class Body {
    #bytes; #used = false;
    constructor(bytes) { this.#bytes = bytes; }
    get bodyUsed() { return this.#used; }
    static take(self) {
      if (self.#used) throw new TypeError("Body is unusable: Body has already been read");
      self.#used = true;
      return self.#bytes;
    }
    static peek(self) { return self.#bytes; }
    async bytes() { return take(this); }
    async arrayBuffer() { const b = take(this); return b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength); }
    async text() { return utf8(take(this)); }
    async json() { return JSON.parse(utf8(take(this))); }
    get body() { throw new TypeError("Response.body is not available here (no streams): use text(), json() or arrayBuffer()"); }
    async blob() { throw new TypeError("blob() is not available here: use arrayBuffer()"); }
    async formData() { throw new TypeError("formData() is not available here: use text() and URLSearchParams"); }
  }
  const { take, peek } = Body;
  delete Body.take;
  delete Body.peek;

  function encodeBody(body, headers) {
    if (body === undefined || body === null) return undefined;
    if (body instanceof URLSearchParams) {
      if (!headers.has("content-type")) headers.set("content-type", "application/x-www-form-urlencoded;charset=UTF-8");
      return bytesOf(body.toString());
    }
    if (typeof body === "string" && !headers.has("content-type")) headers.set("content-type", "text/plain;charset=UTF-8");
    return bytesOf(body, "the body of a request");
  }

  class Request extends Body {
    constructor(input, init = {}) {
      const from = input instanceof Request ? input : undefined;
      const headers = new Headers(init.headers ?? from?.headers);
      const body = encodeBody(init.body, headers) ?? (from && peek(from));
      super(body ?? new Uint8Array(0));
      this.url = new URL(from ? from.url : String(input)).href;
      this.method = String(init.method ?? from?.method ?? "GET").toUpperCase();
      if (!TOKEN.test(this.method)) throw new TypeError(`${this.method} is not a valid HTTP method`);
      if (body !== undefined && body.length > 0 && (this.method === "GET" || this.method === "HEAD")) {
        throw new TypeError("Request with GET/HEAD method cannot have body");
      }
      this.headers = headers;
      this.redirect = init.redirect ?? from?.redirect ?? "follow";
      this.signal = init.signal ?? from?.signal ?? null;
    }
    clone() { return new Request(this); }
  }

  class Response extends Body {
    constructor(body, init = {}) {
      const headers = new Headers(init.headers);
      super(encodeBody(body, headers) ?? new Uint8Array(0));
      this.status = init.status ?? 200;
      this.statusText = init.statusText ?? "";
      this.headers = headers;
      this.url = "";
      this.redirected = false;
      this.type = "default";
    }
    get ok() { return this.status >= 200 && this.status < 300; }
    clone() { return Object.assign(new Response(peek(this), this), { url: this.url, redirected: this.redirected }); }
    static json(value, init = {}) {
      const headers = new Headers(init.headers);
      if (!headers.has("content-type")) headers.set("content-type", "application/json");
      return new Response(JSON.stringify(value), { ...init, headers });
    }
    static error() { return Object.assign(new Response(null, { status: 0 }), { type: "error" }); }
  }

  async function fetch(input, init) {
    const request = new Request(input, init);
    request.signal?.throwIfAborted();
    const { url, method, redirect } = request;
    const asked = ask({ op: "fetch", url, method, redirect, headers: [...request.headers] }, peek(request));
    const answer = await (request.signal ? Promise.race([asked, new Promise((_, reject) => {
      request.signal.addEventListener("abort", () => reject(request.signal.reason), { once: true });
    })]) : asked);
    const { status, status_text: statusText, headers, url: from, redirected } = answer;
    return Object.assign(new Response(answer.body, { status, statusText, headers }), { url: from, redirected, type: "basic" });
  }
  for (const [name, value] of Object.entries({ Headers, Request, Response, fetch })) hidden(globalThis, name, value);

  // ---- other capabilities ----------------------------------------------------------------------------------------

  // Runs another registered capability; what it returned, as data. It reaches only what this one may reach as well.
  async function capability(name, args = {}) {
    if (typeof name !== "string") throw new TypeError("capability(name, args): the name must be text");
    if (args === null || typeof args !== "object" || isArray(args)) {
      throw new TypeError("capability(name, args): the arguments must be an object, as in { n: 1 }");
    }
    const { stack } = new Error();
    try {
      const { body } = await ask({ op: "call", name: name.toWellFormed() }, bytesOf(host.data(args, "an argument")));
      return parse(utf8(body));
    } catch (e) {
      // Where the code called it, not where the answer came in.
      hidden(e, "stack", stack);
      throw e;
    }
  }
  hidden(globalThis, "capability", capability);

  // ---- ctx -----------------------------------------------------------------------------------------------------

  const path = (value, api) => {
    if (typeof value !== "string" || value === "") throw new TypeError(`ctx.${api} needs a path (text)`);
    return value.toWellFormed();
  };
  const ctx = {
    fetch,
    // The file as text; { bytes: true } for a Uint8Array.
    async read(name, { bytes = false } = {}) {
      const { body } = await ask({ op: "read", path: path(name, "read") });
      if (bytes) return body;
      // A replaced character would be written back as it is shown, and the file be damaged.
      try { return new TextDecoder("utf-8", { fatal: true }).decode(body); } catch {
        throw new TypeError(`ctx.read: ${name} is no text in UTF-8; read it with { bytes: true }`);
      }
    },
    async write(name, data) { await ask({ op: "write", path: path(name, "write") }, bytesOf(data, "what ctx.write writes")); },
    // [{ name, kind: "file" | "directory" | "other", size }], sorted by name.
    async list(name = ".") { return (await ask({ op: "list", path: path(name, "list") })).entries; },
    async secret(name) { return (await ask({ op: "secret", name: String(name) })).value; },
    call: capability,
    log: (...values) => console.debug(...values),
    workspace: ".",
  };
  host.ctx = Object.freeze(ctx);
})
