"""Measures `jarvis serve`: memory when idle, and many sessions at once with tool calls, with a scripted model.

    python3 bench/serve.py PATH/TO/jarvis [--sessions 200] [--json]

The server's own time of a turn is the turn's time without that of the model's replies and of the tool: reading the
request, the context, the audit, the events, and waiting for a core. The script needs nothing beyond Python.
"""

import argparse
import asyncio
import json
import os
import pathlib
import subprocess
import tempfile
import time

DEFINITION = {
    "name": "reverse_text", "capability": "Reverses the characters of a text.", "triggers": ["a text backwards"],
    "parameters": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
    "returns": {"type": "string"},
    "examples": [{"args": {"text": "abc"}, "returns": "cba"}, {"args": {"text": "xy"}, "returns": "yx"}],
}
CODE = "export default function run({ text }: { text: string }) {\n  return [...text].reverse().join('');\n}\n"
# Milliseconds in which the model answers, by the session's mark.
model_ms: dict[str, float] = {}


async def provider(reader, writer):
    """Chat completions: a call, then an answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:")).split(b":")[1])
    body = await reader.readexactly(length)
    began = time.perf_counter()
    messages = json.loads(body)["messages"]
    mark = next(m["content"] for m in messages if m["role"] == "user")
    if messages[-1]["role"] == "tool":
        delta, reason = {"content": "Done."}, "stop"
    else:
        args = json.dumps({"name": "reverse_text", "args": {"text": mark}})
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "execute_capability", "arguments": args}}
        delta, reason = {"tool_calls": [call]}, "tool_calls"
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    parts = [
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    for part in parts:
        writer.write(f"data: {json.dumps(part)}\n\n".encode())
    writer.write(b"data: [DONE]\n\n")
    await writer.drain()
    writer.close()
    model_ms[mark] = model_ms.get(mark, 0.0) + (time.perf_counter() - began) * 1e3


async def ask(address, method, path, body=None):
    reader, writer = await asyncio.open_connection(*address)
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    answer = await reader.read()
    writer.close()
    head, _, text = answer.partition(b"\r\n\r\n")
    assert b" 20" in head.split(b"\r\n")[0], answer
    return json.loads(text) if text.strip() else None


async def follow(address, session, started):
    """The turn's last event and the tool's time, once the turn is over."""
    reader, writer = await asyncio.open_connection(*address, limit=1 << 22)
    writer.write(f"GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    started.set()
    tool, result = 0.0, None
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if event.get("type") == "tool.completed":
            tool, result = event["duration_ms"], event["content"].get("result")
        if event.get("type") in ("turn.completed", "turn.failed"):
            writer.close()
            return event, tool, result
    return None, tool, result


def memory(pid):
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: int(fields[key].split()[0]) / 1024 for name, key in (("rss_mib", "VmRSS"), ("own_mib", "RssAnon"))}


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def crowd(address, count):
    sessions = [(await ask(address, "POST", "/v1/sessions", {"keep": False}))["id"] for _ in range(count)]
    started = [asyncio.Event() for _ in sessions]
    following = [asyncio.create_task(follow(address, *of)) for of in zip(sessions, started)]
    await asyncio.gather(*(event.wait() for event in started))
    began = time.perf_counter()
    marks = [f"mark {number:04}" for number in range(count)]
    posts = (ask(address, "POST", f"/v1/sessions/{of}/messages", {"text": mark}) for of, mark in zip(sessions, marks))
    await asyncio.gather(*posts)
    ended = await asyncio.gather(*following)
    took = time.perf_counter() - began
    own, lost = [], 0
    for mark, (event, tool, result) in zip(marks, ended):
        if event is None or event["type"] != "turn.completed" or result != mark[::-1]:
            lost += 1
            continue
        own.append(max(0.0, event["duration_ms"] - tool - model_ms[mark]))
    return {
        "sessions": count, "lost": lost, "seconds": round(took, 3),
        "own_ms_p50": round(quantile(own, 0.5), 1), "own_ms_p99": round(quantile(own, 0.99), 1),
    }


async def one_by_one(address, count):
    own = []
    for number in range(count):
        session = (await ask(address, "POST", "/v1/sessions", {"keep": False}))["id"]
        mark = f"alone {number:04}"
        turn = await ask(address, "POST", f"/v1/sessions/{session}/messages?wait=true", {"text": mark})
        started = asyncio.Event()
        _, tool, _ = await follow(address, session, started)
        own.append(max(0.0, turn["duration_ms"] - tool - model_ms[mark]))
    return {"turns": count, "own_ms_p50": round(quantile(own, 0.5), 1), "own_ms_p99": round(quantile(own, 0.99), 1)}


async def measure(jarvis, count):
    server = await asyncio.start_server(provider, "127.0.0.1", 0, limit=1 << 24, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        base = f"model = \"fake/m\"\n[providers.fake]\nbase_url = \"http://127.0.0.1:{port}/v1\"\n"
        pathlib.Path(home, "config.toml").write_text(base + "idle_timeout_s = 120\n[serve]\nrate = 100000\n")
        pathlib.Path(home, "d.json").write_text(json.dumps(DEFINITION))
        pathlib.Path(home, "c.ts").write_text(CODE)
        around = {"PATH": os.environ["PATH"], "HOME": home, "JARVIS_HOME": home}
        register = [jarvis, "cap", "register", "--quiet", "--definition", "d.json", "--code", "c.ts"]
        subprocess.run(register, cwd=home, env=around, check=True)
        command = [jarvis, "serve", "--json", "--listen", "127.0.0.1:0"]
        serving = subprocess.Popen(command, cwd=home, env=around, stdout=subprocess.PIPE, text=True)
        try:
            host, _, bound = json.loads(serving.stdout.readline())["listening"].removeprefix("http://").partition(":")
            address = (host, int(bound))
            await ask(address, "GET", "/v1/sessions")
            await asyncio.sleep(1)
            figures = {"idle": {name: round(value, 1) for name, value in memory(serving.pid).items()}}
            figures["one_by_one"] = await one_by_one(address, 20)
            figures["at_once"] = await crowd(address, count)
            figures["after"] = {name: round(value, 1) for name, value in memory(serving.pid).items()}
        finally:
            serving.terminate()
            serving.wait()
    server.close()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jarvis")
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = asyncio.run(measure(os.path.abspath(args.jarvis), args.sessions))
    if args.json:
        print(json.dumps(figures))
        return
    for name, of in figures.items():
        print(name.replace("_", " ").ljust(12), ", ".join(f"{key} {value}" for key, value in of.items()))


if __name__ == "__main__":
    main()
