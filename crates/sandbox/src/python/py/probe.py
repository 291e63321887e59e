# Run once outside the jail by the person's own interpreter: where it keeps itself, and the worker's programs compiled
# by it. Standard input: the programs' sources, separated by NUL. Prints one line of JSON.
import os, sys, _json, marshal

quoted = _json.encode_basestring_ascii
strings = lambda values: "[" + ",".join(map(quoted, values)) + "]"
program = getattr(sys, "_base_executable", None) or sys.executable
sources = sys.stdin.buffer.read().decode().split("\0")
programs = [marshal.dumps(compile(source, "jarvis", "exec", dont_inherit=True)).hex() for source in sources]
library = [os.path.dirname(os.__file__)] + [path for path in sys.path if path and os.path.exists(path)]
mapped = []
try:
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if ".so" in path and "/" + path not in mapped:
                mapped.append("/" + path)
except OSError:
    pass
print("{" + ",".join((
    f'"version":[{sys.version_info[0]},{sys.version_info[1]}]',
    f'"tag":{quoted(sys.implementation.cache_tag or "")}',
    f'"program":{quoted(os.path.realpath(program))}',
    f'"asked":{quoted(os.path.realpath(sys.executable))}',
    f'"library":{strings(library)}',
    f'"mapped":{strings(mapped)}',
    f'"programs":{strings(programs)}',
)) + "}")
