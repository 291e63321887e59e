# The worker's side of the talk with the broker (frame.rs), and one job. Behind entry.py and result.py. Evaluated with
# builtins of its own, so that what the person's code does to the builtins does not reach it.
import sys, posix, _io, _json, _thread

FD, FILE, NAME = 3, "capability.py", "capability"
READY, JOB, PRINT, CALL, REPLY, RESULT, DONE = 1, 2, 3, 4, 5, 6, 7
MOST_HEAD, SLACK, MOST_MESSAGE, PIECE = 64 << 10, 64 << 10, 4000, 32 << 10
AT_ONCE = 7  # less than the broker holds for one worker (converse.rs), so that what is printed is always read

sending, asking = _thread.allocate_lock(), _thread.allocate_lock()


# ---- frames ----------------------------------------------------------------------------------------------------------

def take(count):
    parts, have = [], 0
    while have < count:
        part = posix.read(FD, min(count - have, 1 << 20))
        if not part:
            posix._exit(0)  # the broker is gone
        parts.append(part)
        have += len(part)
    return b"".join(parts)


def receive():
    head = take(5)
    return head[4], take(int.from_bytes(head[:4], "little") - 1)


def send(kind, *parts):
    frame = b"".join(((sum(map(len, parts)) + 1).to_bytes(4, "little"), bytes((kind,)), *parts))
    with sending:
        at = posix.write(FD, frame)
        while at < len(frame):
            at += posix.write(FD, memoryview(frame)[at:])


class Scan:
    strict, object_hook, object_pairs_hook, parse_float, parse_int, memo = True, None, None, float, int, {}

    @staticmethod
    def parse_constant(name):
        raise ValueError(name)


def parse_json(text):
    return _json.make_scanner(Scan)(text, 0)[0]


# ---- what is printed -------------------------------------------------------------------------------------------------

class Raw(_io._RawIOBase):
    printed, encoding = 0, "utf-8"

    def writable(self):
        return True

    def write(self, data):
        data = bytes(data)
        for at in range(0, len(data), PIECE):
            send(PRINT, data[at:at + PIECE])
        Raw.printed += len(data)
        return len(data)


def stream():
    return _io.TextIOWrapper(Raw(), "utf-8", "backslashreplace", newline="\n", write_through=True)


def print_whole(*values, sep=" ", end="\n", file=None, flush=False):
    """print, with one write for each call: each write is a message."""
    sep, end = " " if sep is None else sep, "\n" if end is None else end
    for name, one in (("sep", sep), ("end", end)):
        if not isinstance(one, str):
            raise TypeError(f"{name} must be None or a string, not {type(one).__name__}")
    file = sys.stdout if file is None else file
    if file is not None:
        file.write(sep.join(map(str, values)) + end)
        if flush:
            file.flush()


print_whole.__name__ = print_whole.__qualname__ = "print"


# ---- ctx -------------------------------------------------------------------------------------------------------------

class CapabilityError(RuntimeError):
    """Another capability that was called failed."""


CapabilityError.__module__ = "builtins"
KINDS = {"PermissionError": PermissionError, "TypeError": TypeError, "RangeError": ValueError,
         "TimeoutError": TimeoutError, "NotFoundError": LookupError, "FileNotFoundError": FileNotFoundError,
         "CapabilityError": CapabilityError}
limits = {"most": SLACK}
last = [0]


def request(head, body):
    """The frame's payload of a request, and its id."""
    head = ("{" + ",".join(f"{text(key)}:{encode(value, 'a request', [])}" for key, value in head.items()) + "}").encode()
    if len(head) > MOST_HEAD:
        raise ValueError(f"a request may have {MOST_HEAD} bytes beside its content")
    if len(head) + len(body) + 8 > limits["most"]:
        raise ValueError(f"a request may have {limits['most']} bytes (limits.output_bytes and a little)")
    last[0] += 1
    return last[0], (last[0].to_bytes(4, "little"), len(head).to_bytes(4, "little"), head, body)


def reply():
    kind, payload = receive()
    if kind != REPLY:
        posix._exit(0)
    end = 8 + int.from_bytes(payload[4:8], "little")
    return int.from_bytes(payload[:4], "little"), parse_json(payload[8:end].decode()), payload[end:]


def opened(head, body):
    error = head.get("error")
    if error is None:
        return head, body
    raise KINDS.get(error["name"], RuntimeError)(error["message"])


def ask(head, body=b""):
    with asking:
        number, parts = request(head, body)
        send(CALL, *parts)
        while True:
            answered, head, body = reply()
            if answered == number:
                return opened(head, body)


class Pending:
    """Requests of an event loop: several at a time."""

    def __init__(self, loop):
        import asyncio
        self.loop, self.waiting, self.turns = loop, {}, asyncio.Semaphore(AT_ONCE)
        loop.add_reader(FD, self.arrived)

    def arrived(self):
        number, head, body = reply()
        future = self.waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_result((head, body))

    async def ask(self, head, body=b""):
        async with self.turns:
            number, parts = request(head, body)
            future = self.waiting[number] = self.loop.create_future()
            send(CALL, *parts)
            return opened(*await future)


def data_of(data, what):
    if isinstance(data, str):
        return data.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"{what} must be text or bytes, not {type(data).__name__} (json.dumps an object first)")


def path_of(path, api):
    if not isinstance(path, str) and hasattr(path, "__fspath__"):
        path = path.__fspath__()
    if not isinstance(path, str) or not path:
        raise TypeError(f"ctx.{api} needs a path (text)")
    return path


class Headers(dict):
    """Names in small letters; looked up in any."""

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def __contains__(self, name):
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name, default=None):
        return super().get(name.lower(), default)


class Response:
    def __init__(self, head, body):
        self.status = self.status_code = head["status"]
        self.reason = self.status_text = head["status_text"]
        self.url, self.redirected, self.content = head["url"], head["redirected"], body
        self.ok = 200 <= self.status < 300
        self.headers = Headers()
        for name, value in head["headers"]:
            name = name.lower()
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value

    @property
    def text(self):
        return self.content.decode("utf-8-sig", "replace")

    def json(self):
        import json
        return json.loads(self.content)

    def raise_for_status(self):
        if self.status >= 400:
            raise RuntimeError(f"{self.status} {self.reason} for {self.url}")
        return self

    def __repr__(self):
        return f"<Response [{self.status}]>"


def fetch(url, method="GET", headers=None, body=None, json=None, redirect="follow"):
    headers = [(str(name), str(value)) for name, value in dict(headers or {}).items()]
    kind = None
    if json is not None:
        if body is not None:
            raise TypeError("ctx.fetch takes body or json, not both")
        body, kind = encode(json, "json", []), "application/json"
    elif isinstance(body, str):
        kind = "text/plain;charset=UTF-8"
    if kind and not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("content-type", kind))
    head = {"op": "fetch", "url": str(url), "method": str(method).upper(), "redirect": redirect, "headers": headers}
    return head, b"" if body is None else data_of(body, "the body of a request"), Response


def read(path, bytes=False):
    def done(head, body):
        if bytes:
            return body
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError:
            # A replaced character would be written back as it is shown, and the file be damaged.
            raise TypeError(f"ctx.read: {path} is no text in UTF-8; read it with bytes=True") from None
    return {"op": "read", "path": path_of(path, "read")}, b"", done


def write(path, data):
    return {"op": "write", "path": path_of(path, "write")}, data_of(data, "what ctx.write writes"), lambda *_: None


def list_(path="."):
    return {"op": "list", "path": path_of(path, "list")}, b"", lambda head, _: head["entries"]


def secret(name):
    return {"op": "secret", "name": str(name)}, b"", lambda head, _: head["value"]


def call(name, args=None, /, **named):
    """Runs another registered capability; it reaches only what this one may reach as well."""
    if not isinstance(name, str):
        raise TypeError("capability(name, args): the name must be text")
    if args is not None and not isinstance(args, dict):
        raise TypeError('capability(name, args): the arguments must be a dict, as in {"n": 1}')
    body = encode({**(args or {}), **named}, "an argument", []).encode()
    return {"op": "call", "name": name}, body, lambda _, body: parse_json(body.decode())


def context(pending=None, coroutine=False):
    """The second argument. Its calls are plain ones for `def run`, and awaited for `async def run`."""
    def plain(make):
        def method(*args, **kwargs):
            head, body, done = make(*args, **kwargs)
            return done(*ask(head, body))
        return method

    def awaited(make):
        async def method(*args, **kwargs):
            head, body, done = make(*args, **kwargs)
            return done(*(ask(head, body) if pending is None else await pending[0].ask(head, body)))
        return method

    wrap = awaited if coroutine else plain
    members = {"workspace": ".", "log": lambda *values: print_whole(*values), "__slots__": ()}
    for name, make in (("fetch", fetch), ("read", read), ("write", write), ("list", list_), ("secret", secret),
                       ("call", call)):
        members[name] = wrap(make)
    members = {name: staticmethod(f) if callable(f) else f for name, f in members.items()}
    return type("Context", (), members)()


# ---- the job ---------------------------------------------------------------------------------------------------------

def arrange(entry, args, ctx):
    """Calls the entry: with all arguments and the context, or by its parameters' names where the arguments have
    these names."""
    f = entry
    while hasattr(f, "__wrapped__"):
        f = f.__wrapped__
    bound = getattr(f, "__self__", None) is not None
    f = getattr(f, "__func__", f)
    code = getattr(f, "__code__", None)
    if code is None:
        return entry(args, ctx)
    count, keyword = code.co_argcount, code.co_kwonlyargcount
    names, only = list(code.co_varnames[bound:count]), list(code.co_varnames[count:count + keyword])
    free, rest = bool(code.co_flags & 4), bool(code.co_flags & 8)
    given = set(names[len(names) - len(f.__defaults__ or ()):]) | set(f.__kwdefaults__ or ())
    ours = [name for name in names[-1:] + only if name in CONTEXT]
    wanted = [name for name in names + only if name not in ours]
    whole = any(name in WHOLE for name in names[:1])
    if isinstance(args, dict) and not whole and code.co_posonlyargcount == 0:
        hit = any(name in args for name in wanted)
        if hit or rest and not names or not args and wanted and all(name in given for name in wanted):
            values = dict(args) if rest else {name: args[name] for name in wanted if name in args}
            values.update(dict.fromkeys(ours, ctx))
            return entry(**values)
    context = {name: ctx for name in only if name in ours}
    if names and names == ours:
        return entry(ctx)
    return entry(*[args, ctx][:2 if free else len(names)], **context)


def settle(outcome, waits, waits_in_loop):
    """The value of what the entry gave back."""
    if not hasattr(type(outcome), "__await__"):
        return outcome
    if not waits_in_loop:
        # Nothing can make it wait: each call of ctx is done when it is awaited.
        steps = outcome.__await__()
        try:
            steps.send(None)
        except StopIteration as e:
            return e.value
        raise RuntimeError("run awaited what nothing here resolves: import asyncio for its event loop")
    import asyncio

    async def main():
        waits.append(Pending(asyncio.get_running_loop()))
        return await outcome
    return asyncio.run(main())


def run(source, args):
    name, definition = choose(parse(source))
    module = type(sys)(NAME)
    module.__file__ = FILE
    sys.modules[NAME] = module
    module.CapabilityError = CapabilityError
    # While the module is read nothing can be awaited; from then on it is ctx.call.
    contexts = [context()]
    module.capability = lambda *args, **named: contexts[-1].call(*args, **named)
    exec(compile(source, FILE, "exec", dont_inherit=True), module.__dict__)
    entry = module.__dict__.get(name)
    if not callable(entry):
        raise TypeError(f"the entry `{name}` is {kind_of(entry)}, not a function")
    waits = []
    code = getattr(entry, "__code__", None)
    asynchronous = isinstance(definition, _ast.AsyncFunctionDef) or code is not None and bool(code.co_flags & 0x80)
    # The event loop takes longer to import than most code to run.
    waits_in_loop = "asyncio" in sys.modules or "asyncio" in source
    pending = waits if asynchronous and waits_in_loop else None
    contexts.append(context(pending, asynchronous))
    value = settle(arrange(entry, args, contexts[-1]), waits, waits_in_loop)
    if value is None and definition is not None and not definition.decorator_list and returns_nothing(definition):
        raise TypeError("returned nothing (None): return a value")
    return encode(value, "the result", [])


def place(e, source):
    """`line:column` of the innermost frame in the person's code."""
    trace, found = e.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            found = trace
        trace = trace.tb_next
    if found is None:
        return ""
    line, column = found.tb_lineno, 1
    positions = getattr(found.tb_frame.f_code, "co_positions", None)
    if positions is not None:
        for index, (_, _, start, _) in enumerate(positions()):
            if index == found.tb_lasti // 2:
                text = source.split("\n")[line - 1:line]
                column = len("".join(text).encode()[:start or 0].decode("utf-8", "ignore")) + 1
                break
    return f"{line}:{column}"


NO_NETWORK = "there is no network here: use ctx.fetch, with the host in grants.network"
NO_FILES = "files of the workspace are reached by ctx.read, ctx.write and ctx.list, with a grant"


def hint(e):
    name, kinds = type(e).__name__, {kind.__name__ for kind in type(e).__mro__}
    if name == "ModuleNotFoundError":
        return "only the standard library and the packages in `dependencies` can be imported"
    if kinds & {"URLError", "gaierror"} or isinstance(e, OSError) and e.errno in (97, 99, 101, 111, 113):
        return NO_NETWORK
    if isinstance(e, PermissionError) and e.filename is None and "socket" in sys.modules:
        return NO_NETWORK
    if isinstance(e, OSError) and e.filename is not None and e.errno in (1, 2, 13, 30):
        return NO_FILES
    return None


def fault(e, source):
    """Exit class and what happened, as the broker takes it."""
    if isinstance(e, MemoryError):
        return "memory", None
    where = place(e, source)
    name = type(e).__name__
    try:
        message = str(e)
        if isinstance(e, SystemExit):
            message = f"the code called sys.exit({e.code!r}): return a value, or raise an error"
        elif (more := hint(e)) is not None:
            message = f"{message} ({more})"
    except BaseException:
        message = "an error that cannot be shown"
    return "threw", {"name": name, "message": message[:MOST_MESSAGE], "stack": where}


def finish(exit, fault):
    spent = posix.times()
    words = {"exit": exit, "fault": fault, "cpu_us": int((spent[0] + spent[1]) * 1e6), "peak_memory_kb": 0}
    send(DONE, encode(words, "", []).encode())
    # No handler, thread or finaliser of the code comes after the last word.
    posix._exit(0)


def fix(seed, now_ms):
    """Chance and time stand still: see `fixed` in mod.rs for what is left out."""
    import random, time
    random.seed(seed)
    import datetime
    now = now_ms / 1000
    time.time, time.time_ns = (lambda: now), (lambda: now_ms * 1_000_000)
    for name in ("gmtime", "localtime", "ctime"):
        def at(seconds=None, real=getattr(time, name)):
            return real(now if seconds is None else seconds)
        setattr(time, name, at)
    def strftime(format, *given, real=time.strftime):
        return real(format, *(given or (time.localtime(),)))
    time.strftime = strftime

    def stand_in(real, members):
        # Values that C code makes are of the real class, and count as of this one.
        class Kind(type):
            def __instancecheck__(cls, x):
                return isinstance(x, real)

            def __subclasscheck__(cls, other):
                return issubclass(other, real)
        show = {"__module__": "datetime", "__slots__": (), "__reduce__": lambda self: (real, real.__reduce__(self)[1]),
                "__repr__": lambda self: "datetime." + real.__repr__(self).rpartition("datetime.")[2]}
        return Kind(real.__name__, (real,), {**show, **members})
    moment, day = datetime.datetime, datetime.date
    stopped = {"now": classmethod(lambda cls, tz=None: cls.fromtimestamp(now, tz)),
               "utcnow": classmethod(lambda cls: cls.fromtimestamp(now, datetime.timezone.utc).replace(tzinfo=None)),
               "today": classmethod(lambda cls: cls.fromtimestamp(now))}
    datetime.datetime = stand_in(moment, stopped)
    datetime.date = stand_in(day, {"today": classmethod(lambda cls: cls.fromtimestamp(now))})


def main():
    builtins = sys.modules["builtins"]
    sys.path.extend(sys.argv[1:])
    sys.argv = [FILE]
    sys.stdout, sys.stderr = stream(), stream()
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    builtins.print = print_whole
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)  # time is limited here, not digits
    send(READY, b'{"layers":[],"missing":null}')
    kind, payload = receive()
    if kind != JOB:
        posix._exit(0)
    job = parse_json(payload.decode())
    del payload
    source, most = job["javascript"], job["output_bytes"]
    limits["most"] = most + SLACK
    try:
        if job["fixed"] is not None:
            fix(job["fixed"]["random_seed"], job["fixed"]["now_ms"])
        try:
            choose(parse(source))
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as e:
            line, column = place_of(e) if isinstance(e, SyntaxError) else (None, None)
            message = getattr(e, "msg", None) or str(e) or "the code is nested too deeply"
            where = f"{line}:{column}" if line else ""
            finish("rejected", {"name": "SyntaxError", "message": message[:MOST_MESSAGE], "stack": where})
        result = run(source, parse_json(job["args"])).encode()
        if Raw.printed + len(result) > most:
            finish("output", None)
        send(RESULT, result)
        finish("ok", None)
    except BaseException as e:
        finish(*fault(e, source))


main()
