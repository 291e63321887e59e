#!/usr/bin/env python3
"""A PostgreSQL server with pgvector for the tests of the shared memory: `pip install pgserver`, then run this.

Prints the server's URL as one line and stays until its input ends; then the server and all it wrote are gone. The
server listens on this machine alone and asks for a password that is new each time. PostgreSQL does not run as root, so
root starts it as `nobody`, from a copy of the programs that this user may read.
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def programs() -> Path:
    # Not imported: importing it looks for a place to run a server in.
    found = importlib.util.find_spec("pgserver")
    if found is None or found.origin is None:
        sys.exit("postgres.py: this Python has no pgserver; install it: python3 -m pip install pgserver")
    return Path(found.origin).parent / "pginstall"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    install = programs()
    scratch = Path(tempfile.mkdtemp(prefix="jarvis-postgres-"))
    server = None
    try:
        who = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            libraries = install.parent.with_name("pgserver.libs")
            if libraries.exists():
                # The programs look for them by this way.
                shutil.copytree(libraries, scratch / "pgserver.libs", symlinks=True)
            install = Path(shutil.copytree(install, scratch / "pgserver/pginstall", symlinks=True))
            os.chown(scratch, nobody.pw_uid, nobody.pw_gid)
        password = secrets.token_hex(16)
        secret = scratch / "password"
        secret.write_text(password)
        if who:
            os.chown(secret, who["user"], who["group"])
        secret.chmod(0o600)
        data = scratch / "data"
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "cwd": scratch, **who}
        begin = [install / "bin/initdb", "-D", data, "-U", "jarvis", "--auth=scram-sha-256", "--encoding=UTF8"]
        subprocess.run([*begin, "--locale=C", "--no-sync", f"--pwfile={secret}"], check=True, **quiet)
        port = free_port()
        # Nothing of it is to outlive this run, so nothing has to reach the disk.
        settings = ["listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", "fsync=off"]
        options = [part for setting in settings for part in ("-c", setting)]
        log = open(scratch / "log", "wb")
        server = subprocess.Popen([install / "bin/postgres", "-D", data, *options], stderr=log, **quiet)
        for _ in range(300):
            ready = subprocess.run([install / "bin/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], **quiet)
            if ready.returncode == 0:
                break
            if server.poll() is not None:
                break
            time.sleep(0.1)
        else:
            sys.exit("postgres.py: the server did not begin to answer")
        if server.poll() is not None:
            sys.exit(f"postgres.py: the server ended:\n{(scratch / 'log').read_text(errors='replace')}")
        print(f"postgres://jarvis:{password}@127.0.0.1:{port}/postgres", flush=True)
        sys.stdin.read()
    finally:
        if server is not None and server.poll() is None:
            # What PostgreSQL calls a fast shutdown.
            server.send_signal(signal.SIGINT)
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
