// The worker's side of the talk with the broker (frame.rs) in Deno: frames on standard input and output. `CORE` and
// `CTX` are the embedded engine's own layer, so that arguments, results and ctx are the same in both.
{
  const READY = 1, JOB = 2, PRINT = 3, CALL = 4, REPLY = 5, RESULT = 6, DONE = 7;
  const SLACK = 64 << 10, MOST_HEAD = 64 << 10, PIECE = 32 << 10, MOST_MESSAGE = 4000;
  const { stdin, stdout, exit } = Deno;
  const encoder = new TextEncoder(), decoder = new TextDecoder();
  const utf8 = (text) => encoder.encode(text);
  let most = SLACK, printed = 0, asked = 0, listening = false;

  function send(kind, ...parts) {
    const length = parts.reduce((sum, part) => sum + part.length, 1);
    const frame = new Uint8Array(4 + length);
    new DataView(frame.buffer).setUint32(0, length, true);
    frame[4] = kind;
    let at = 5;
    for (const part of parts) { frame.set(part, at); at += part.length; }
    for (let sent = 0; sent < frame.length;) sent += stdout.writeSync(frame.subarray(sent));
  }
  const word = (n) => { const bytes = new Uint8Array(4); new DataView(bytes.buffer).setUint32(0, n, true); return bytes; };

  const reader = stdin.readable.getReader();
  let held = new Uint8Array(0);
  async function take(count) {
    const parts = [held];
    for (let have = held.length; have < count;) {
      const { value, done } = await reader.read();
      if (done) exit(0); // the broker is gone
      parts.push(value);
      have += value.length;
    }
    const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) { all.set(part, at); at += part.length; }
    held = all.subarray(count);
    return all.subarray(0, count);
  }
  async function receive() {
    const head = await take(5);
    const length = new DataView(head.buffer, head.byteOffset).getUint32(0, true), kind = head[4];
    return [kind, await take(length - 1)];
  }

  // Reads only while an answer is to come: otherwise nothing keeps code alive that waits for what never comes.
  async function listen() {
    if (listening) return;
    listening = true;
    while (asked > 0) {
      const [kind, payload] = await receive();
      if (kind !== REPLY) exit(0);
      asked--;
      const view = new DataView(payload.buffer, payload.byteOffset), end = 8 + view.getUint32(4, true);
      host.answer(view.getUint32(0, true), decoder.decode(payload.subarray(8, end)), payload.slice(end));
    }
    listening = false;
  }

  const native = {
    print(text) {
      const bytes = utf8(text);
      for (let at = 0; at < bytes.length; at += PIECE) send(PRINT, bytes.subarray(at, at + PIECE));
      printed += bytes.length;
    },
    toBase64: (bytes) => btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")),
    full: () => finish("output", null),
    now: () => performance.now(),
    random: (count) => crypto.getRandomValues(new Uint8Array(count)),
    ask(id, head, body) {
      const text = utf8(head);
      if (text.length > MOST_HEAD) throw new RangeError(`a request may have ${MOST_HEAD} bytes beside its content`);
      if (text.length + body.length + 8 > most) throw new RangeError(`a request may have ${most} bytes`);
      send(CALL, word(id), word(text.length), text, body);
      asked++;
      listen();
    },
  };
  const host = { absent: { __proto__: null } };
  const timers = ["setTimeout", "setInterval", "clearTimeout", "clearInterval", "setImmediate", "clearImmediate"];
  const own = timers.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  globalThis.PermissionError = class PermissionError extends Error { get name() { return "PermissionError"; } };
  (CORE)(native, host);
  (CTX)(native, host);
  timers.forEach((name, at) => own[at] && Object.defineProperty(globalThis, name, own[at]));
  host.fixDate = (now) => {
    const Real = Date;
    globalThis.Date = new Proxy(Real, {
      construct: (target, given, made) => Reflect.construct(target, given.length === 0 ? [now] : given, made),
      apply: () => new Real(now).toString(),
      get: (target, name) => (name === "now" ? () => now : target[name]),
    });
  };

  function finish(exitClass, fault) {
    send(DONE, utf8(JSON.stringify({ exit: exitClass, fault, cpu_us: 0, peak_memory_kb: 0 })));
    exit(0);
  }
  async function run(job, code) {
    const { fixed, form } = job;
    host.begin(JSON.parse(job.args, exact), form === "script", job.output_bytes, fixed?.random_seed, fixed?.now_ms);
    const module = await import(code);
    if (form === "script") return undefined;
    return host.result(await host.call(module.default, globalThis.args, job.positional));
  }
  function succeed(text, job) {
    const result = utf8(text);
    if (printed + result.length > job.output_bytes) finish("output", null);
    send(RESULT, result);
    finish("ok", null);
  }
  // Whole numbers beyond 2^53-1 become BigInt, as in the embedded engine.
  function exact(_key, value, context) {
    const whole = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "");
    return whole ? BigInt(context.source) : value;
  }

  async function main() {
    send(READY, utf8('{"layers":[],"missing":null}'));
    const [kind, payload] = await receive();
    if (kind !== JOB) exit(0);
    const job = JSON.parse(decoder.decode(payload));
    most = job.output_bytes + SLACK;
    const code = URL.createObjectURL(new Blob([job.javascript], { type: "text/javascript" }));
    const failed = (e) => {
      const [name, message, stack] = host.fault(e);
      const where = stack.replaceAll(code, "capability.js").slice(0, MOST_MESSAGE);
      finish(e instanceof SyntaxError && !stack.includes(code) ? "rejected" : "threw", { name, message: message.slice(0, MOST_MESSAGE), stack: where });
    };
    globalThis.addEventListener("unhandledrejection", (event) => { event.preventDefault(); failed(event.reason); });
    globalThis.addEventListener("error", (event) => { event.preventDefault(); failed(event.error); });
    // Nothing is left to do: the end of a script, and the end of a function that waits for nothing.
    globalThis.addEventListener("beforeunload", () => {
      try {
        if (job.form === "script") succeed(host.printed(), job);
        throw new Error("the promise never settles: nothing is left that could resolve it (a missing resolve() call, or an await on a value that never comes)");
      } catch (e) {
        failed(e);
      }
    });
    delete globalThis.Deno;
    try {
      const result = await run(job, code);
      if (job.form !== "script") succeed(result, job);
    } catch (e) {
      failed(e);
    }
  }
  main();
}
