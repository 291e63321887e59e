# The result as JSON text. What has no form as data is an error that says where it is and what to do.
import sys, _json

DEEPEST, SAFE = 100, 9007199254740991


ADVICE = {"coroutine": "await it", "set": "it has no order: return sorted(…)", "frozenset": "it has no order: return sorted(…)",
          **dict.fromkeys(("generator", "map", "filter", "zip"), "make a list of it: list(…)"),
          **dict.fromkeys(("bytes", "bytearray"), "return text: .decode(), or base64.b64encode(…).decode()"),
          "complex": "return [x.real, x.imag]", "timedelta": "return .total_seconds()", "function": "call it"}


def kind_of(x):
    name = type(x).__name__
    named = {"NoneType": "None", "builtin_function_or_method": "a function", "method": "a function", "type": "a class",
             "bytes": "bytes"}
    return named.get(name) or f"a {name}"


def text(s):
    try:
        s.encode()
    except UnicodeEncodeError:
        s = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in s)
    return _json.encode_basestring(str(s))


def whole(x):
    return int.__repr__(x) if -SAFE <= x <= SAFE else f'"{int.__repr__(x)}"'


def number(x, path):
    if x != x or x in (float("inf"), float("-inf")):
        raise ValueError(f"{path} is {float.__repr__(x)}, which is no result: check the calculation")
    # JSON knows one kind of number; a whole one reads the same from every runtime.
    return int.__repr__(int(x)) if -SAFE <= x <= SAFE and x == int(x) else float.__repr__(x)


def key_of(key, path):
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int):
        return int.__repr__(key)
    if isinstance(key, float):
        return float.__repr__(key)
    raise TypeError(f"{path} has a key that is {kind_of(key)}; only text and numbers can be keys of a result")


def encode(x, path, above):
    if x is None:
        return "null"
    if x is True or x is False:
        return "true" if x else "false"
    if isinstance(x, (str, int, float)):
        enum = sys.modules.get("enum")
        if enum is not None and isinstance(x, enum.Enum):
            return encode(x.value, path, above)
        return text(x) if isinstance(x, str) else whole(x) if isinstance(x, int) else number(x, path)
    if len(above) >= DEEPEST:
        raise ValueError(f"{path} is nested more than {DEEPEST} levels deep")
    if id(x) in above:
        raise ValueError(f"{path} contains itself (a cycle), so it is no data")
    above.append(id(x))
    out = encode_object(x, path, above)
    above.pop()
    return out


def members(pairs, path, above):
    parts, seen = [], set()
    for key, value in pairs:
        name = key_of(key, path)
        if name in seen:
            raise TypeError(f"{path} has two keys that are both {text(name)} in a result")
        seen.add(name)
        parts.append(f"{text(name)}:{encode(value, f'{path}.{name}', above)}")
    return "{" + ",".join(parts) + "}"


def items(values, path, above):
    return "[" + ",".join([encode(value, f"{path}[{at}]", above) for at, value in enumerate(values)]) + "]"


def encode_object(x, path, above):
    if isinstance(x, dict):
        return members(dict.items(x), path, above)
    if isinstance(x, (list, tuple, range)):
        return items(x, path, above)
    # Classes of modules that the code has imported; nothing is imported for this.
    module, name = type(x).__module__, type(x).__name__
    known = lambda module, *names: tuple(
        getattr(sys.modules[module], one) for one in names) if module in sys.modules else ()
    if isinstance(x, known("collections", "UserDict")):
        return members(x.items(), path, above)
    if isinstance(x, known("collections", "deque", "UserList")):
        return items(list(x), path, above)
    if isinstance(x, known("enum", "Enum")):
        return encode(x.value, path, above)
    if isinstance(x, known("decimal", "Decimal")):
        if not x.is_finite():
            raise ValueError(f"{path} is {x}, which is no result: check the calculation")
        return text(str(x))
    if isinstance(x, known("fractions", "Fraction")) or isinstance(x, known("uuid", "UUID")):
        return text(str(x))
    if isinstance(x, known("datetime", "datetime", "date", "time")):
        return text(x.isoformat())
    if isinstance(x, BaseException):
        raise TypeError(f"{path} is an error ({name}: {x}): raise it instead")
    if isinstance(getattr(type(x), "__dataclass_fields__", None), dict):
        return members([(field, getattr(x, field)) for field in type(x).__dataclass_fields__], path, above)
    if module.partition(".")[0] in ("numpy", "pandas") and callable(getattr(x, "tolist", None)):
        plain = x.tolist()
        if type(plain) is not type(x):
            return encode(plain, path, above)
    advice = ADVICE.get(name, "return numbers, text, lists and dicts")
    raise TypeError(f"{path} is {kind_of(x)}, which is no data: {advice}")
