# Reads the bodies of tools without running them: [{name, code, parameters}] in, [{text, awaits}] out.
import ast, inspect, io, json, keyword, sys, textwrap, tokenize


def fail(tool, message):
    sys.exit(f"the code of {tool['name']}: {message}")


def indented(code):
    # Lines inside of a text of several lines are part of it.
    inside = set()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.start[0] != token.end[0]:
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    lines = code.split("\n")
    return "\n".join(
        "    " + line if line.strip() and number not in inside else line for number, line in enumerate(lines, 1)
    )


def parsed(code):
    text = indented(code)
    tree = ast.parse("async def tool():\n" + text + "\n")
    return text, tree


def own(function):
    # Without the functions inside of it.
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def read(tool):
    for name in tool["parameters"]:
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            fail(tool, f"the parameter {name!r} is no name that Python takes for a parameter; call it otherwise")
    given = tool["code"].replace("\r\n", "\n").strip("\n")
    if not given.strip():
        fail(tool, "there is none")
    problem = None
    # As it is; and where the first line lost the indentation that the others have.
    for code in (textwrap.dedent(given), inspect.cleandoc(given)):
        try:
            text, tree = parsed(code)
            break
        except (SyntaxError, tokenize.TokenError, ValueError) as error:
            line = getattr(error, "lineno", None)
            where = f"line {line - 1}: " if line and line > 1 else ""
            problem = problem or f"{where}{getattr(error, 'msg', None) or error}"
    else:
        fail(tool, problem)
    if len(tree.body) != 1:
        fail(tool, "it is more than the body of a function")
    nodes = list(own(tree.body[0]))
    if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes):
        fail(tool, "a tool returns its result, it does not yield")
    if not any(isinstance(node, ast.Return) and node.value is not None for node in nodes):
        fail(tool, "it returns nothing; give the body alone, without `def`, and end it with return")
    awaits = any(isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) or getattr(node, "is_async", 0) for node in nodes)
    return {"text": text, "awaits": awaits}


print(json.dumps([read(tool) for tool in json.load(sys.stdin)]))
