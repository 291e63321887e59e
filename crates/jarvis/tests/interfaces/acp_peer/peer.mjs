// An editor made with the official client: does the steps of a script with `jarvis acp` and tells what it saw as JSON.
// Usage: node peer.mjs SCRIPT.json PROGRAM [ARGUMENT…]; JARVIS_TEST_ACP_SDK names the folder with the client's package.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const entry = "node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js";
const acp = await import(pathToFileURL(join(process.env.JARVIS_TEST_ACP_SDK, entry)).href);
const [scriptFile, program, ...args] = process.argv.slice(2);
const script = JSON.parse(readFileSync(scriptFile, "utf8"));

const seen = { results: {}, updates: [], permissions: [], withdrawn: 0, reads: [], writes: [], exit: null };
const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((done) => child.on("exit", (code, signal) => done({ code, signal })));

const waiting = [];
const moved = () => waiting.splice(0).forEach((wake) => wake());
const answers = [...(script.permissions ?? [])];
const files = script.files ?? {};

const editor = acp
  .client({ name: "an editor" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    seen.updates.push(params);
    moved();
  })
  .onRequest(acp.methods.client.session.requestPermission, async ({ params, signal }) => {
    seen.permissions.push(params);
    moved();
    const answer = answers.shift() ?? "reject";
    if (answer === "wait") {
      await new Promise((done) => signal.addEventListener("abort", done, { once: true }));
      seen.withdrawn += 1;
      moved();
      return { outcome: { outcome: "cancelled" } };
    }
    return { outcome: { outcome: "selected", optionId: answer } };
  })
  .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => {
    seen.reads.push(params.path);
    if (!(params.path in files)) throw new acp.RequestError(-32002, "it is not open");
    return { content: files[params.path] };
  })
  .onRequest(acp.methods.client.fs.writeTextFile, ({ params }) => {
    seen.writes.push(params);
    if (script.readOnly) throw new acp.RequestError(-32603, "the person said no");
    files[params.path] = params.content;
    return {};
  });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const connection = editor.connect(stream);
const agent = connection.agent;

// "$new.sessionId" is that part of the result of the step called `new`.
function filled(value) {
  if (typeof value === "string" && value.startsWith("$")) {
    const [name, ...path] = value.slice(1).split(".");
    return path.reduce((at, key) => at?.[key], seen.results[name]?.result) ?? value;
  }
  if (Array.isArray(value)) return value.map(filled);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, filled(v)]));
  return value;
}

function includes(whole, part) {
  if (part && typeof part === "object") return Object.entries(part).every(([key, value]) => includes(whole?.[key], value));
  return typeof part === "string" && typeof whole === "string" ? whole.includes(part) : whole === part;
}

async function until(what, found) {
  const end = Date.now() + 30_000;
  while (!found()) {
    const left = end - Date.now();
    if (left <= 0) throw new Error(`never seen: ${JSON.stringify(what)}\n${JSON.stringify(seen)}`);
    await Promise.race([new Promise((wake) => waiting.push(wake)), new Promise((done) => setTimeout(done, left))]);
  }
}

const started = {};
function begin(step) {
  const began = Date.now();
  const ended = (outcome) => {
    seen.results[step.as] = { ...outcome, ms: Date.now() - began };
    moved();
  };
  return agent.request(step.request ?? step.start, filled(step.params ?? {})).then(
    (result) => ended({ result }),
    (error) => ended({ error: { code: error.code, message: error.message, data: error.data } }),
  );
}

for (const step of script.steps) {
  if (step.request) await begin(step);
  else if (step.start) started[step.as] = begin(step);
  else if (step.finish) await started[step.finish];
  else if (step.notify) await agent.notify(step.notify, filled(step.params ?? {}));
  else if (step.until) await until(step.until, () => seen.updates.some((told) => includes(told, filled(step.until))));
  else if (step.asked) await until(step, () => seen.permissions.length >= step.asked);
  else if (step.withdrawn) await until(step, () => seen.withdrawn >= step.withdrawn);
  else if (step.sleep) await new Promise((done) => setTimeout(done, step.sleep));
  else throw new Error(`no such step: ${JSON.stringify(step)}`);
}

const leaving = Date.now();
child.stdin.end();
const end = await exited;
seen.exit = { ...end, ms: Date.now() - leaving };
process.stdout.write(JSON.stringify(seen), () => process.exit(0));
