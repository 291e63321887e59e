"""The official Python client against `jarvis mcp serve`: client.py stdio|http MODE COMMAND-OR-URL…

MODE is legacy (a handshake) or auto (the newest protocol that both speak). Prints `done` after the last check.
"""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult

way, mode, *rest = sys.argv[1:]
asked = []


async def elicit(context, params):
    asked.append(params.message)
    return ElicitResult(action="accept", content={"allow": True})


REVERSE = {
    "definition": {
        "name": "reverse_" + mode,
        "capability": f"Reverses the characters of a text ({mode}, {way}).",
        "parameters": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
        "returns": {"type": "string"},
        "examples": [{"args": {"text": "早上好"}, "returns": "好上早"}],
    },
    "code": "export default function run({ text }: { text: string }) { return [...text].reverse().join(''); }\n",
}
READ = {
    "definition": {
        "name": "read_" + mode,
        "capability": "Reads a note of the workspace.",
        "parameters": {"type": "object", "required": ["file"], "properties": {"file": {"type": "string"}}},
        "examples": [{"args": {"file": "notes/a.txt"}}],
        "grants": {"read": ["notes"]},
    },
    "code": "export default async function run({ file }, ctx) { return await ctx.read(file); }\n",
}


def value(result):
    assert not result.is_error, result.content
    return result.structured_content


async def listens(client):
    """Subscriptions of the newest protocol: what can be watched is accepted, and told of when it changes."""
    watched = ["jarvis://audit/tail", "file:///etc/passwd"]
    async with client.listen(tools_list_changed=True, resource_subscriptions=watched) as changes:
        honored = changes.honored
        assert list(honored.resource_subscriptions or []) == watched[:1], honored
        call = {"name": "reverse_" + mode, "args": {"text": "再来"}}
        assert value(await client.call_tool("execute_capability", call)) == {"result": "来再"}
        async for event in changes:
            assert str(event.uri) == watched[0], event
            break


async def main():
    server = rest[0] if way == "http" else StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ))
    progress = []

    async def step(done, total, message):
        progress.append(message)

    async with Client(server, mode=mode, elicitation_callback=elicit, read_timeout_seconds=60) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"list_capabilities", "register_capability", "execute_capability"} <= set(tools), tools
        assert tools["list_capabilities"].annotations.read_only_hint is True
        made = value(await client.call_tool("register_capability", REVERSE, progress_callback=step))
        assert made["registered"] == "reverse_" + mode, made
        assert [message.split(":")[0] for message in progress] == ["spec", "code", "checked", "verified", "approved", "registered"], progress
        call = {"name": "reverse_" + mode, "args": {"text": "你好"}}
        assert value(await client.call_tool("execute_capability", call)) == {"result": "好你"}
        found = value(await client.call_tool("list_capabilities", {"query": "reverse the characters of a text"}))
        assert any(c["name"] == "reverse_" + mode for c in found["capabilities"]), found
        wrong = await client.call_tool("execute_capability", {"name": "nobody", "args": {}})
        assert wrong.is_error and "nobody" in wrong.content[0].text
        assert value(await client.call_tool("register_capability", READ))["registered"] == "read_" + mode
        assert len(asked) == 1 and "/notes" in asked[0], asked
        got = value(await client.call_tool("execute_capability", {"name": "read_" + mode, "args": {"file": "notes/a.txt"}}))
        assert got == {"result": "from the note"}, got
        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert "jarvis://audit/tail" in uris, uris
        assert '"kind"' in (await client.read_resource("jarvis://audit/tail")).contents[0].text
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["daily"]
        assert "what was done" in (await client.get_prompt("daily")).messages[0].content.text
        if mode == "auto":
            await listens(client)
    print("done")


asyncio.run(main())
