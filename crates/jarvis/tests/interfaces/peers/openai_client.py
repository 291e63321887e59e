"""The official client against `jarvis serve`: argv[1] is its address."""

import base64
import sys

import openai

base = sys.argv[1]
client = openai.OpenAI(base_url=f"{base}/v1", api_key="a-token-of-some-length", max_retries=0)
PNG = base64.b64encode(bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082")).decode()

ids = [model.id for model in client.models.list()]
assert "jarvis" in ids and "fake/m" in ids, ids

asked = [
    {"role": "system", "content": "Answer briefly."},
    {"role": "user", "content": "mark-grow What is 6 times 7?"},
]
whole = client.chat.completions.create(model="jarvis", messages=asked, temperature=0.2)
assert whole.object == "chat.completion" and whole.model == "fake/m", whole
choice = whole.choices[0]
assert choice.message.role == "assistant" and "42" in choice.message.content, whole
assert choice.finish_reason == "stop", whole
assert whole.usage.prompt_tokens == 44 and whole.usage.total_tokens == 56, whole.usage

said, finishes, usage, roles = "", [], None, []
stream = client.chat.completions.create(
    model="fake/m",
    messages=[{"role": "user", "content": "mark-stream 你好"}],
    stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    assert chunk.object == "chat.completion.chunk"
    if chunk.usage:
        usage = chunk.usage
    for choice in chunk.choices:
        said += choice.delta.content or ""
        if choice.delta.role:
            roles.append(choice.delta.role)
        if choice.finish_reason:
            finishes.append(choice.finish_reason)
assert said == "早上好 — it is morning.", said
assert finishes == ["stop"] and roles == ["assistant"], (finishes, roles)
assert usage.prompt_tokens == 11 and usage.completion_tokens == 3, usage

talk = client.chat.completions.create(
    model="jarvis",
    messages=[
        {"role": "user", "content": "mark-talk I am Ada."},
        {"role": "assistant", "content": "Hello Ada."},
        {"role": "user", "content": [
            {"type": "text", "text": "Who am I, and what is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ]},
    ],
)
assert talk.choices[0].message.content == "Ada, and a picture.", talk


def refused(kind, says, **request):
    request.setdefault("model", "jarvis")
    request.setdefault("messages", [{"role": "user", "content": "x"}])
    try:
        client.chat.completions.create(**request)
    except kind as error:
        assert says in str(error), error
        return
    raise AssertionError(f"{request} was not refused")


tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
refused(openai.BadRequestError, "tools", tools=[tool])
refused(openai.BadRequestError, "one answer", n=2)
refused(openai.NotFoundError, "nowhere", model="nowhere/m")
refused(openai.BadRequestError, "fetched", messages=[{"role": "user", "content": [
    {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}}]}])
wrong = openai.OpenAI(base_url=f"{base}/v1", api_key="wrong", max_retries=0)
try:
    wrong.models.list()
    raise AssertionError("a wrong token was taken")
except openai.AuthenticationError as error:
    assert "token" in str(error), error

# What fails in the middle of a stream is an error of the client, not a short answer.
try:
    failing = client.chat.completions.create(
        model="jarvis", messages=[{"role": "user", "content": "mark-fail"}], stream=True)
    for chunk in failing:
        pass
    raise AssertionError("a failed turn looked like an answer")
except openai.APIError as error:
    assert "500" in str(error) or "script" in str(error) or "server" in str(error), error

# Nobody is there to be asked, so what needs a yes is not made.
lonely = client.chat.completions.create(model="jarvis", messages=[{"role": "user", "content": "mark-reach"}])
assert "could not" in lonely.choices[0].message.content, lonely
print("ok")
