# Unpacks wheels, in the jail. Arguments: the folder to fill, then the wheels. Runs nothing of what is in them.
import os, stat, sys, zipfile

MOST_FILES, MOST_BYTES = 100_000, 4 << 30


def refuse(why):
    sys.stderr.write(why)
    sys.exit(3)


def target(wheel, info):
    """Where a file of the wheel goes; None for what is no module (scripts, headers)."""
    name = info.filename
    parts = name.rstrip("/").split("/")
    if name.startswith("/") or "\\" in name or "\0" in name or ":" in parts[0] or any(p in ("", ".", "..") for p in parts):
        refuse(f"`{wheel}` holds `{name[:200]}`, a path that leads out of it")
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        refuse(f"`{wheel}` holds `{name[:200]}`, which is a link or a device")
    if parts[0].endswith(".data") and len(parts) > 1:
        return parts[2:] if parts[1] in ("purelib", "platlib") else None
    return parts


def main():
    site, wheels = sys.argv[1], sys.argv[2:]
    count = size = 0
    owner = {}
    for path in wheels:
        wheel = os.path.basename(path)
        try:
            archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError) as e:
            refuse(f"`{wheel}` is no wheel: {e}")
        for info in archive.infolist():
            parts = target(wheel, info)
            if not parts or info.is_dir():
                continue
            count, size = count + 1, size + info.file_size
            if count > MOST_FILES or size > MOST_BYTES:
                refuse(f"`{wheel}` is too large: more than {MOST_FILES} files or {MOST_BYTES >> 30} GiB in all")
            place = os.path.join(site, *parts)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            twice = place in owner
            try:
                with archive.open(info) as source, open(place, "rb" if twice else "xb") as file:
                    while piece := source.read(1 << 20):
                        if not twice:
                            file.write(piece)
                        elif file.read(len(piece)) != piece:
                            refuse(f"`{wheel}` and `{owner[place]}` both hold `{info.filename[:200]}`")
            except Exception as e:
                refuse(f"`{wheel}` is broken at `{info.filename[:200]}`: {e}")
            owner[place] = wheel
    import compileall
    from py_compile import PycInvalidationMode
    # What does not compile for this version is left as it is; its import will say so.
    compileall.compile_dir(site, quiet=2, stripdir=site, prependdir="packages",
                           invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)


main()
