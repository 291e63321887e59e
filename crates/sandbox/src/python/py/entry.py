# Which function of the code is the capability, and how it takes its arguments. In front of worker.py and check.py.
import _ast

# Names of a single parameter that stands for all arguments at once, and of the one for the context; as in entry.rs.
WHOLE = {"args", "_args", "arguments", "params", "parameters", "input", "inputs", "options", "opts", "props",
         "payload", "request", "req", "_"}
CONTEXT = {"ctx", "_ctx", "context", "_context", "env", "_env"}
HOW = "write `def run(args, ctx):`"
FUNCTIONS = (_ast.FunctionDef, _ast.AsyncFunctionDef)


def parse(source):
    return compile(source, "capability.py", "exec", 0x400, dont_inherit=True)  # PyCF_ONLY_AST


def nodes(tree):
    """The tree's nodes in the order of the text, without recursion: code may nest deeply."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        found = []
        for field in node._fields:
            value = getattr(node, field, None)
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, _ast.AST):
                    found.append(one)
        waiting.extend(reversed(found))


def statements(body):
    """Top-level statements, also those inside if, try and with."""
    for one in body:
        yield one
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(one, (_ast.ClassDef, *FUNCTIONS)):
                yield from statements(getattr(one, field, ()))
        for handler in getattr(one, "handlers", ()):
            yield from statements(handler.body)


def choose(tree):
    """Name of the entry, and its definition where it is one. A SyntaxError says why there is none."""
    functions, bound = {}, set()
    for one in statements(tree.body):
        if isinstance(one, FUNCTIONS):
            functions[one.name] = one
        elif isinstance(one, (_ast.Assign, _ast.AnnAssign)):
            for target in one.targets if isinstance(one, _ast.Assign) else (one.target,):
                if isinstance(target, _ast.Name):
                    bound.add(target.id)
        elif isinstance(one, _ast.ImportFrom):
            bound.update(alias.asname or alias.name for alias in one.names)
    if "run" in functions or "run" in bound:
        return "run", functions.get("run")
    if not functions:
        raise SyntaxError("there is no code: " + HOW if not tree.body else "there is no function: " + HOW)
    if len(functions) > 1:
        # Helpers are called by others; the one that nobody calls is the capability.
        used = {node.id for node in nodes(tree) if isinstance(node, _ast.Name) and isinstance(node.ctx, _ast.Load)}
        uncalled = [name for name in functions if name not in used]
        if len(uncalled) != 1:
            raise SyntaxError("which function is the capability: " + ", ".join(functions) + "? " + HOW + " for it")
        return uncalled[0], functions[uncalled[0]]
    return next(iter(functions.items()))


def returns_nothing(function):
    """Whether no path of the function can return or yield a value."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, _ast.Return) and node.value is not None or isinstance(node, (_ast.Yield, _ast.YieldFrom)):
            return False
        if not isinstance(node, (_ast.ClassDef, _ast.Lambda, *FUNCTIONS)):
            for field in node._fields:
                value = getattr(node, field, None)
                for one in value if isinstance(value, list) else (value,):
                    if isinstance(one, _ast.AST):
                        waiting.append(one)
    return True


def place_of(e):
    """1-based line and column (in characters) of a SyntaxError."""
    return e.lineno or None, max(e.offset or 1, 1) if e.lineno else None
