# Reads the person's code without running it: an ordinary job whose argument is that code. Behind entry.py.
import ast
import importlib.util

KINDS = ("fetch", "read", "write", "list", "secret", "call")


def written(kind, argument):
    """The part of the first argument that is written out: text, or the beginning of an f-string or a sum."""
    whole = True
    if isinstance(argument, ast.JoinedStr):
        whole, argument = len(argument.values) <= 1, (argument.values or [None])[0]
    elif isinstance(argument, ast.BinOp):
        whole, argument = False, argument.left
    if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
        return None
    # Of a URL the host is taken out by the caller; it must be written out up to the slash behind it.
    if kind == "fetch":
        rest = argument.value.partition("://")[2]
        return argument.value if rest and (whole or any(c in rest for c in "/?#")) else None
    return argument.value if whole else None


def parameters(definition):
    """Names of the arguments by which the entry is called, or of the one that holds them all; the context's name."""
    names = [a.arg for a in definition.args.posonlyargs + definition.args.args + definition.args.kwonlyargs]
    context = [n for n in names[-1:] if n in CONTEXT] or [n for n in names[1:2]]
    plain = [n for n in names if n not in CONTEXT]
    if not plain or plain[0] in WHOLE:
        return [], plain[0] if plain else None, context
    return plain, plain[0] if len(plain) == 1 or context == plain[1:2] else None, context


def missing(tree):
    """The first import that nothing here offers."""
    optional = {id(n) for t in nodes(tree) if isinstance(t, ast.Try) for s in t.body for n in nodes(s)}
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                return node, "there is no package around the code: a relative import has nothing to import from"
            names = [node.module]
        else:
            continue
        for name in () if id(node) in optional else names:
            top = name.partition(".")[0]
            if importlib.util.find_spec(top) is None:
                more = "; for HTTP there is ctx.fetch" if top in ("requests", "httpx", "aiohttp", "urllib3") else ""
                return node, (f"`{top}` is neither in the standard library nor installed by `dependencies` "
                              f'(for example dependencies: ["{top}==VERSION"]){more}')
    return None


def refused(message, line=None, column=None, name="SyntaxError"):
    return {"error": {"name": name, "message": message[:4000], "line": line, "column": column}}


def run(args):
    source = args["source"]
    try:
        tree = parse(source)
        compile(source, "capability.py", "exec", dont_inherit=True)
        entry, definition = choose(tree)
    except SyntaxError as e:
        return refused(e.msg, *place_of(e))
    except (ValueError, RecursionError, MemoryError, OverflowError) as e:
        return refused(str(e) or "the code is nested too deeply")
    absent = missing(tree)
    if absent is not None:
        return refused(absent[1], absent[0].lineno, absent[0].col_offset + 1, "ImportError")
    positional, held, context = parameters(definition) if definition is not None else ([], None, [])
    contexts = CONTEXT | set(context)
    texts = {id(n.value) for n in nodes(tree) if isinstance(n, ast.Expr)}  # docstrings are no values
    uses, literals, keys = [], [], []
    # A `capability` of the code's own is not the one that calls others.
    shadowed = any(n.arg == "capability" if isinstance(n, ast.arg) else n.name == "capability"
                   if isinstance(n, FUNCTIONS + (ast.ClassDef,)) else isinstance(n, ast.Name) and n.id == "capability"
                   and isinstance(n.ctx, ast.Store) for n in nodes(tree))

    def key(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in keys:
            keys.append(node.value)

    for node in nodes(tree):
        if isinstance(node, ast.Constant) and id(node) not in texts and not isinstance(node.value, bool):
            if isinstance(node.value, (str, int, float)) and node.value != "":
                literals.append(node.value if isinstance(node.value, str) else repr(node.value))
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == held:
            key(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "capability" and not shadowed:
                target = written("call", node.args[0]) if node.args else None
                uses.append({"kind": "call", "target": target, "line": node.lineno})
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = node.func.value, node.func.attr
            if not isinstance(owner, ast.Name):
                continue
            if owner.id in contexts and name in KINDS:
                first = node.args[0] if node.args else node.keywords[0].value if node.keywords else None
                uses.append({"kind": name, "target": written(name, first), "line": node.lineno})
            elif owner.id == held and name in ("get", "pop") and node.args:
                key(node.args[0])
    params = keys if held is not None and keys else positional
    return {"params": params, "positional": positional, "uses": uses, "literals": literals}
