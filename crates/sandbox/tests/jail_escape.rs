//! Attacks on the jail's walls: files, the kernel, other processes, the network.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

mod jails;

use jails::{SECRETS, attack, world};
use jarvis_sandbox::{JailSpec, Preset, Seccomp, View};

const FILES: &[(&str, &str)] = &[
    ("shadow", "cat /etc/shadow /etc/gshadow && echo HOLE"),
    (
        "system folders cannot be changed",
        "for d in / /usr /etc /usr/bin /opt /proc /dev /var; do echo x > $d/hole-$$ && echo HOLE $d; done",
    ),
    (
        "a program of the system cannot be replaced",
        "cp /bin/true /usr/bin/env && echo HOLE; rm -f /usr/bin/env && test ! -e /usr/bin/env && echo HOLE; chmod 777 /usr/bin/env && echo HOLE",
    ),
    (
        "home outside of the project",
        "ls \"$H\"/letter.txt && echo HOLE; echo x > \"$H\"/hole && test -e /proc/1/root\"$H\"/letter.txt && echo HOLE",
    ),
    ("other people's homes", "ls \"$OTHER\" && echo HOLE; cat \"$OTHER\"/letter.txt && echo HOLE"),
    ("jarvis's own home", "ls \"$J\"/key && echo HOLE"),
    ("upwards", "cat ../letter.txt ../../you/letter.txt /proc/self/cwd/../letter.txt && echo HOLE"),
    ("by a link", "ln -s \"$H\" link && cat link/letter.txt link/.ssh/id_ed25519 && echo HOLE; rm link"),
    (
        "no sysfs, run, boot, mnt, srv, media",
        "for d in /sys /run /boot /mnt /srv /media /var/run /var/lib/docker; do test -e $d && ls -A $d && echo HOLE $d; done",
    ),
    (
        "sockets of the system",
        "for s in /var/run/docker.sock /run/docker.sock /run/dbus/system_bus_socket /run/systemd/private /run/user /tmp/.X11-unix; do test -e $s && echo HOLE $s; done",
    ),
    (
        "private tmp",
        "ls -A /tmp | grep -vx home | grep -q . && test \"$(ls -A /tmp | wc -l)\" -gt 2 && echo HOLE; ls -d /tmp/jarvis-jail-* && echo HOLE",
    ),
    (
        "devices",
        "ls /dev | grep -vxE 'fd|full|null|random|shm|stderr|stdin|stdout|urandom|zero' && echo HOLE; mknod /tmp/d b 259 0 && echo HOLE; test -e /dev/tty && echo HOLE",
    ),
    (
        "kernel settings",
        "echo 1 > /proc/sys/kernel/panic && echo HOLE; echo b > /proc/sysrq-trigger && echo HOLE; head -c1 /proc/kcore && echo HOLE; cat /proc/keys && echo HOLE; cat /proc/kmsg && echo HOLE",
    ),
    ("core pattern", "echo '|/bin/sh' > /proc/sys/kernel/core_pattern && echo HOLE"),
    (
        "git hooks and settings",
        "echo x > .git/hooks/pre-commit && echo HOLE; echo x >> .git/config && echo HOLE; rm -rf .git; test -f .git/config || echo HOLE; mv .git git2 && echo HOLE; rmdir .git && echo HOLE; chmod -R 777 .git && echo HOLE",
    ),
    ("git settings by a hard link", "ln .git/config config2 && echo HOLE; ln -f src/main.py .git/config && echo HOLE"),
    (
        "what is not there yet cannot be made",
        "for n in .jarvis .idea .hg .claude .cursor .devcontainer .husky .githooks; do mkdir $n && echo HOLE; echo x > $n/x && echo HOLE; mv src $n && echo HOLE; ln -s src $n/l && echo HOLE; done; for n in .envrc .mcp.json .npmrc; do echo x > $n && echo HOLE; rm -f $n && echo HOLE; mv src/main.py $n && echo HOLE; ln -sf src $n && test -L $n && echo HOLE; done",
    ),
    (
        "editor settings",
        "echo x > .vscode/tasks.json && echo HOLE; mv .vscode v && echo HOLE; rm -rf .vscode; test -f .vscode/settings.json || echo HOLE",
    ),
    (
        "the project itself cannot be moved away",
        "mv \"$P\" \"$P\"2 && echo HOLE; rmdir \"$P\" && echo HOLE; test -w . || echo HOLE",
    ),
    (
        "unmount",
        "umount .git && echo HOLE; umount -l / && echo HOLE; mount -t tmpfs none /tmp && echo HOLE; mount -o remount,rw / && echo HOLE; mount --bind /proc /tmp && echo HOLE",
    ),
    ("unshare", "unshare -Urm true && echo HOLE; unshare -U true && echo HOLE; nsenter -t 1 -m true && echo HOLE"),
    ("chroot", "chroot / true && echo HOLE"),
    (
        "setuid",
        "cp /bin/sh /tmp/s && chmod u+s /tmp/s && test \"$(/tmp/s -c 'id -u')\" != \"$(id -u)\" && echo HOLE; su root -c id </dev/null && test $(id -u) -ne 0 && echo HOLE; sudo -n true && echo HOLE",
    ),
    (
        "nothing set-uid is left behind",
        "cp /bin/sh s; for m in 6755 4755 2755 u+s g+s; do chmod $m s && echo HOLE $m; done; chmod 1755 s || echo HOLE; test -u s -o -g s && echo HOLE; mkdir -m 755 d || echo HOLE; rm s",
    ),
    (
        "no rights",
        "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v 0000000000000000 && echo HOLE; grep -q 'NoNewPrivs:.1' /proc/self/status || echo HOLE; grep -q 'Seccomp:.2' /proc/self/status || echo HOLE",
    ),
    (
        "other processes",
        "ls /proc | grep -E '^[0-9]+$' | while read p; do grep -qE '^Name:.(systemd|init|cargo|bash)$' /proc/$p/status && echo HOLE; done; test \"$(ls /proc | grep -cE '^[0-9]+$')\" -lt 8 || echo HOLE; kill -9 -1; kill -9 1; kill -STOP 1; cat /proc/1/environ | grep -q . && echo HOLE; ls -l /proc/1/fd/ 2>&1 | grep -q socket && echo HOLE; cat /proc/1/mem && echo HOLE",
    ),
    (
        "the old root by pid 1",
        "ls /proc/1/root/ && echo HOLE; ls /proc/1/cwd/ && echo HOLE; ls /proc/self/root/home/* 2>/dev/null | grep letter && echo HOLE",
    ),
    ("descriptors", "ls /proc/self/fd | grep -vxE '0|1|2|3' && echo HOLE; ls -l /proc/$$/fd"),
    (
        "environment",
        "env | grep -vE '^(PATH|LANG|HOME|TMPDIR|H|OTHER|P|J|PWD|OLDPWD|SHLVL|_)=' && echo HOLE; test \"$HOME\" = /tmp/home && test -w \"$HOME\" || echo HOLE",
    ),
    ("standard input", "read line && echo HOLE; test \"$(readlink /proc/self/fd/0)\" = /dev/null || echo HOLE"),
    (
        "terminal",
        "(echo x > /dev/tty) 2>/dev/null && echo HOLE; tty -s && echo HOLE; test \"$(ps -o tty= -p $$)\" = '?' || echo HOLE",
    ),
    (
        "session and group",
        "test \"$(ps -o sid= -p $$ | tr -d ' ')\" = \"$(ps -o pgid= -p $$ | tr -d ' ')\" || echo HOLE",
    ),
    ("host name", "test \"$(cat /proc/sys/kernel/hostname)\" = jail || echo HOLE; hostname other && echo HOLE"),
    (
        "network devices",
        "test \"$(ls /sys/class/net 2>/dev/null)\" = '' || echo HOLE; grep -vE 'Inter|face|lo:' /proc/net/dev && echo HOLE",
    ),
    (
        "priority",
        "nice -n -5 true 2>&1 | grep -q denied || test $(nice -n -5 nice) -ge 0 || echo HOLE; echo -500 > /proc/self/oom_score_adj && echo HOLE",
    ),
];

const KERNEL: &[(&str, &str)] = &[
    ("ptrace", "denied('ptrace', 101, 16, 1, 0, 0); denied('traceme', 101, 0, 0, 0, 0)"),
    (
        "memory of others",
        "denied('readv', 310, 1, 0, 0, 0, 0, 0); denied('writev', 311, 1, 0, 0, 0, 0, 0); denied('madvise', 440, 1, 0, 0, 0, 0); denied('getfd', 438, 3, 0, 0)",
    ),
    (
        "mounts",
        "denied('mount', 165, b'none', b'/tmp', b'tmpfs', 0, 0); denied('umount', 166, b'/tmp', 2); denied('pivot', 155, b'/', b'/tmp'); denied('chroot', 161, b'/tmp')",
    ),
    ("new mounts", "[denied(n, n, 0, 0, 0, 0, 0) for n in (428, 429, 430, 431, 432, 433, 442, 457, 458, 467)]"),
    (
        "namespaces",
        "[denied(hex(f), 272, f) for f in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x10020000)]; denied('setns', 308, 0, 0)",
    ),
    (
        "clone into namespaces",
        "[denied(hex(f), 56, f | 17, 0, 0, 0, 0) for f in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)]",
    ),
    (
        "clone3",
        "ctypes.set_errno(0); r = call(435, 0, 0); e = ctypes.get_errno()\nif r >= 0 or e != errno.ENOSYS: print('HOLE', r, e)",
    ),
    (
        "keys",
        "denied('add', 248, b'user', b'x', b'y', 1, -3); denied('request', 249, b'user', b'x', 0, -3); denied('keyctl', 250, 0, -3, 0)",
    ),
    (
        "bpf and tracing",
        "denied('bpf', 321, 0, 0, 0); denied('perf', 298, 0, 0, -1, -1, 0); denied('userfault', 323, 0)",
    ),
    (
        "io_uring",
        "denied('setup', 425, 1, 0); denied('enter', 426, 0, 0, 0, 0, 0, 0); denied('register', 427, 0, 0, 0, 0)",
    ),
    (
        "the machine",
        "denied('kexec', 246, 0, 0, 0, 0); denied('kexec_file', 320, 0, 0, 0, 0, 0); denied('module', 175, 0, 0, 0); denied('finit', 313, 0, 0, 0); denied('delete', 176, 0, 0); denied('swapon', 167, b'/', 0); denied('reboot', 169, 0xfee1dead, 0x28121969, 0x1234567); denied('acct', 163, 0); denied('quota', 179, 0, 0, 0, 0); denied('iopl', 172, 3); denied('ioperm', 173, 0, 1, 1); denied('ldt', 154, 0, 0, 0)",
    ),
    (
        "clocks and names",
        "denied('time', 164, 0, 0); denied('clock', 227, 0, 0); denied('adjust', 305, 0, 0); denied('host', 170, b'x', 1); denied('domain', 171, b'x', 1); denied('syslog', 103, 3, 0, 0); denied('vhangup', 153)",
    ),
    (
        "handles",
        "denied('handle', 304, 0, 0, 0); denied('name', 303, -100, b'/', 0, 0, 0); denied('fanotify', 300, 0, 0)",
    ),
    (
        "typing into the terminal",
        "import fcntl\nno('TIOCSTI', lambda: fcntl.ioctl(0, 0x5412, b'x'))\nctypes.set_errno(0); call(16, 0, 0x5412, b'x')\nif ctypes.get_errno() != errno.EPERM: print('HOLE', ctypes.get_errno())\nctypes.set_errno(0); call(16, 0, 0x541c, b'x')\nif ctypes.get_errno() != errno.EPERM: print('HOLE')\nctypes.set_errno(0); call(16, 0, 0x7fffffff00005412, b'x')\nif ctypes.get_errno() != errno.EPERM: print('HOLE high bits')",
    ),
    (
        "set-uid by every call",
        "fd = os.open('s', os.O_CREAT | os.O_RDWR, 0o755)\nfor b in (0o4755, 0o2755, 0o6755):\n  denied('chmod', 90, b's', b); denied('fchmod', 91, fd, b); denied('fchmodat', 268, -100, b's', b); denied('fchmodat2', 452, -100, b's', b, 0)\n  denied('open', 2, b'a', 0o102, b); denied('openat', 257, -100, b'b', 0o102, b, 0); denied('tmpfile', 257, -100, b'.', 0o20200002, b, 0); denied('open tmpfile', 2, b'.', 0o20200002, b)\n  denied('creat', 85, b'c', b); denied('mknod', 133, b'd', 0o100000 | b, 0); denied('mknodat', 259, -100, b'e', 0o100000 | b, 0)\nctypes.set_errno(0); r = call(437, -100, b'.', struct.pack('QQQ', 0, 0, 0), 24)\nif r >= 0 or ctypes.get_errno() != errno.ENOSYS: print('HOLE openat2', r)\nif os.stat('s').st_mode & 0o6000 or any(os.path.exists(n) for n in 'abcde'): print('HOLE', os.listdir('.'))\n# Without a new file, the mode means nothing.\nif call(257, -100, b's', 0, 0o6755, 0) < 0: print('HOLE', 'an ordinary open')",
    ),
    ("odd personalities", "[denied(hex(p), 135, p) for p in (0x40000, 0x400000, 0x100000, 0x4)]"),
    (
        "odd sockets",
        "[denied(f, 41, f, t, p) for f, t, p in ((38, 5, 0), (17, 3, 0x300), (40, 1, 0), (16, 3, 15), (16, 3, 9), (29, 3, 1), (31, 3, 1), (15, 3, 2), (44, 3, 0), (21, 5, 0), (30, 1, 0))]; denied('pair', 53, 40, 1, 0, 0)",
    ),
    (
        "raw sockets",
        "no('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)); no('raw6', lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58))",
    ),
    (
        "the other numbering",
        "ctypes.set_errno(0); r = call(0x40000000 + 39); e = ctypes.get_errno()\nif r >= 0 or e != errno.ENOSYS: print('HOLE', r, e)",
    ),
    (
        "32-bit calls",
        "import mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))\nf = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\npid = os.fork()\nif pid == 0:\n    f(); print('HOLE', flush=True); os._exit(0)\n_, s = os.waitpid(pid, 0)\nif not os.WIFSIGNALED(s): print('HOLE', s)",
    ),
    (
        "addresses on the network",
        "[no(a, lambda a=a: socket.create_connection(a, 1)) for a in (('1.1.1.1', 53), ('169.254.169.254', 80), ('127.0.0.1', 22), ('10.0.0.1', 80), ('::1', 80), ('2606:4700:4700::1111', 53))]",
    ),
    (
        "datagrams",
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); no('udp', lambda: s.sendto(b'x', ('192.0.2.1', 53))); no('broadcast', lambda: s.sendto(b'x', ('255.255.255.255', 9)))",
    ),
    ("names", "no('dns', lambda: socket.getaddrinfo('example.com', 80))"),
    (
        "abstract sockets of others",
        "[no(n, lambda n=n: socket.socket(socket.AF_UNIX).connect(n)) for n in ('\\0jail-test-abstract', '\\0/tmp/.X11-unix/X0', '\\0/tmp/dbus')]",
    ),
    (
        "shared memory and queues of others",
        "denied('shm', 0x7fffffff) if False else None\nif open('/proc/sysvipc/shm').read().count('\\n') > 1: print('HOLE')\nif open('/proc/sysvipc/msg').read().count('\\n') > 1: print('HOLE')",
    ),
    (
        "executable files in a private tmp run, but never setuid",
        "import stat, subprocess\nopen('/tmp/x', 'w').write('#!/bin/sh\\nid -u'); os.chmod('/tmp/x', 0o755); no('chmod', lambda: os.chmod('/tmp/x', 0o4755))\nif int(subprocess.check_output('/tmp/x')) != os.getuid(): print('HOLE')",
    ),
    (
        "users",
        "no('setuid', lambda: os.setuid(1)); no('setgid', lambda: os.setgid(1)); no('setgroups', lambda: os.setgroups([1])); no('chown', lambda: (open('/tmp/y', 'w').close(), os.chown('/tmp/y', 1, 1)))\nno('map', lambda: open('/proc/self/uid_map', 'w').write('0 0 1'))",
    ),
    (
        "emptying and touching by other calls",
        "[no(p, lambda p=p: os.truncate(p, 0)) for p in ('.git/config', '/etc/passwd', '.vscode/settings.json')]; [no(p, lambda p=p: os.utime(p)) for p in ('.git/config', '/etc/passwd')]; no('xattr', lambda: os.setxattr('.git/config', 'user.x', b'y')); no('rename', lambda: os.rename('src', '.git')); no('exchange', lambda: (_ for _ in ()).throw(OSError()) if call(316, -100, b'src', -100, b'.git', 2) < 0 else None)",
    ),
    (
        "a folder opened before",
        "d = os.open('.', os.O_RDONLY | os.O_DIRECTORY)\nno('outside', lambda: os.open('../letter.txt', os.O_RDONLY, dir_fd=d))\nno('beneath', lambda: os.open('.git/config', os.O_WRONLY, dir_fd=d))",
    ),
    (
        "descriptors of the first process",
        "[no(n, lambda n=n: os.open('/proc/1/fd/%d' % n, os.O_RDONLY)) for n in range(64)]; [no(n, lambda n=n: os.readlink('/proc/1/fd/%d' % n)) for n in range(64)]; no('cwd', lambda: os.readlink('/proc/1/cwd')); no('mem', lambda: open('/proc/1/mem', 'rb')); no('maps', lambda: open('/proc/1/maps').read(1) or (_ for _ in ()).throw(OSError()))",
    ),
    ("sending a descriptor out", "no('channel', lambda: os.fstat(3))"),
    (
        "limits cannot be raised",
        "import resource\n[no(r, lambda r=r: resource.setrlimit(r, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))) for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_NPROC)]; no('core', lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)))",
    ),
];

#[tokio::test]
async fn files_stay_what_they_are() {
    attack(&world(), FILES, false).await;
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn the_kernel_is_out_of_reach() {
    // Another process's abstract socket, which must not be seen.
    use std::os::linux::net::SocketAddrExt;
    let name = std::os::unix::net::SocketAddr::from_abstract_name(b"jail-test-abstract").unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&name);
    attack(&world(), KERNEL, true).await;
}

#[tokio::test]
async fn secrets_are_hidden_even_where_the_home_is_shown() {
    let world = world();
    let list = SECRETS.map(|name| format!("cat \"$H\"/{name}")).join("; ");
    let mut spec = world
        .spec("/bin/sh", &["-c", &format!("{list}; cat \"$H\"/letter.txt; cat \"$J\"/key; \"$H\"/.cargo/bin/tool")]);
    spec.read_only = vec![world.home.clone()];
    let chmod = |path: &str| {
        std::fs::set_permissions(world.home.join(path), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    chmod(".cargo/bin/tool");
    let done = world.run(spec).await;
    assert_eq!(done.stdout_text(), "SECRETtool\n", "only the letter: {}", done.stderr_text());
    // A link to a secret does not get around it, nor one that is a secret's place.
    std::fs::rename(world.home.join(".ssh"), world.home.join("keys")).unwrap();
    std::os::unix::fs::symlink(world.home.join("keys"), world.home.join(".ssh")).unwrap();
    let mut spec = world.spec("/bin/sh", &["-c", "cat \"$H\"/.ssh/id_ed25519 \"$H\"/keys/id_ed25519"]);
    spec.read_only = vec![world.home.clone()];
    let done = world.run(spec).await;
    assert_eq!(done.stdout_text(), "", "{}", done.stderr_text());
}

#[tokio::test]
async fn what_should_work_works() {
    let world = world();
    let script = "set -e; echo 水 > new.txt; mkdir -p a/b; mv new.txt a/b; cat a/b/new.txt; sed -i s/1/2/ src/main.py; cat src/main.py; \
                  echo x > $TMPDIR/t; echo y > $HOME/h; ls .git/hooks; seq 3 | sort -r | head -1; echo err >&2; \
                  test -r /etc/passwd; date +%Y >/dev/null; (sleep 0.01 & wait); echo $((1+1)) > /dev/stderr; python3 -c 'import multiprocessing, tempfile, json; multiprocessing.Lock(); print(tempfile.gettempdir())' 2>&1 || true";
    let done = world.sh(script).await;
    assert!(done.stdout_text().starts_with("水\nprint(2)\npre-commit.sample\n3\n"), "{done:?}");
    assert_eq!(done.exit.code, Some(0));
    assert_eq!(std::fs::read_to_string(world.project.join("a/b/new.txt")).unwrap(), "水\n");
    for name in [".jarvis", ".idea", ".envrc", ".mcp.json", ".npmrc", ".claude", ".hg", "HEAD"] {
        assert!(!world.project.join(name).exists(), "{name} held a place and is gone");
    }
    let pool = world
        .python("import multiprocessing as m\np = m.get_context('fork').Pool(2)\nprint(p.map(abs, [-1, -2]))")
        .await;
    assert_eq!(pool.stdout_text(), "[1, 2]\n", "{}", pool.stderr_text());
}

#[tokio::test]
async fn a_read_only_jail_writes_nothing_but_its_tmp() {
    let world = world();
    let mut spec = world.spec(
        "/bin/sh",
        &[
            "-c",
            "echo x > new && echo HOLE; echo x >> src/main.py && echo HOLE; rm -r src; echo x > /tmp/x && echo fine",
        ],
    );
    spec.preset = Preset::ReadOnly;
    assert_eq!(world.run(spec).await.stdout_text(), "fine\n");
    assert!(world.project.join("src/main.py").exists() && !world.project.join(".jarvis").exists());
}

#[tokio::test]
async fn a_bare_jail_has_programs_and_nothing_of_the_person() {
    let world = world();
    let mut spec = world.spec("/bin/sh", &["-c", "ls /etc; cat /etc/passwd; ls -d /opt /home /root; ls \"$H\"; id -un; python3 -I -c 'print(6*7)' 2>/dev/null || /usr/bin/python3 -I -c 'print(6*7)'"]);
    spec.view = View::Bare;
    let out = world.run(spec).await.stdout_text();
    assert!(out.contains("42") && out.contains("user\n") && !out.contains("shadow") && !out.contains("/opt"), "{out}");
    assert!(!out.contains("root:x") && !out.contains(".cargo"), "{out}");
}

#[tokio::test]
async fn a_whole_jail_writes_everything_but_what_is_hidden() {
    let world = world();
    let mut spec = world.spec("/bin/sh", &["-c", "cat \"$J\"/key && echo HOLE; ls /run/* && echo HOLE; ls -A /sys | grep . && echo HOLE; mount -t tmpfs none /tmp && echo HOLE; cat .git/config"]);
    spec.preset = Preset::Full;
    let done = world.run(spec).await;
    assert_eq!(done.stdout_text(), "[core]\n", "{}", done.stderr_text());
    assert!(done.layers.iter().any(|layer| layer == "whole file system"));
}

#[tokio::test]
async fn strict_and_own_filters_hold() {
    let world = world();
    let script = "import socket, os, sys, subprocess\nprint(sum(range(10)), subprocess.check_output(['/bin/echo', 'child']).decode().strip(), len(os.listdir('/usr')) > 3)\n\
                  open('/tmp/x', 'w').write('1')\n\
                  for f in (socket.AF_INET, socket.AF_UNIX):\n  try: socket.socket(f); print('HOLE')\n  except PermissionError: pass\n\
                  try: os.chroot('/'); print('HOLE')\n  \nexcept PermissionError: print('no')";
    let script = script.replace("print('HOLE')\n  \nexcept", "print('HOLE')\nexcept");
    let mut spec = world.spec("/usr/bin/python3", &["-I", "-c", &script]);
    spec.seccomp = Seccomp::Strict;
    let done = world.run(spec).await;
    assert_eq!(done.stdout_text(), "45 child True\nno\n", "{}", done.stderr_text());
    let profile = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":13},
        {"names":["kill"],"action":"SCMP_ACT_ERRNO","args":[{"index":1,"value":9,"op":"SCMP_CMP_EQ"}]},{"names":["sethostname","uname"],"action":"SCMP_ACT_KILL_PROCESS"}]}"#;
    let mut spec = world.spec("/bin/sh", &["-c", "mkdir /tmp/d 2>&1; kill -9 $$ 2>&1; kill -0 $$ && echo there; uname 2>&1; echo $?; mount -t tmpfs none /tmp && echo HOLE"]);
    spec.seccomp = Seccomp::Profile(jarvis_sandbox::Profile::parse(profile).unwrap());
    let out = world.run(spec).await.stdout_text();
    assert!(
        out.contains("Permission denied") && out.contains("there\n") && out.contains("159\n") && !out.contains("HOLE"),
        "{out}"
    );
    // A list of allowed calls that holds what this program needs.
    let profile = r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["execve","brk","arch_prctl","mmap","munmap","mprotect","openat","newfstatat","fstat","read","pread64","close","access","set_tid_address","set_robust_list","rseq","prlimit64","getrandom","futex","exit_group","write","statx"],"action":"SCMP_ACT_ALLOW"}]}"#;
    for (program, args, wanted) in [("/bin/echo", &["hi"][..], "hi\n"), ("/bin/sleep", &["0"][..], "")] {
        let mut spec = world.spec(program, args);
        spec.seccomp = Seccomp::Profile(jarvis_sandbox::Profile::parse(profile).unwrap());
        let done = world.run(spec).await;
        assert_eq!(
            (done.stdout_text().as_str(), done.exit.code == Some(0)),
            (wanted, program == "/bin/echo"),
            "{done:?}"
        );
    }
}

#[tokio::test]
async fn the_channel_is_descriptor_3_and_nothing_else_is_open() {
    let world = world();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut spec = world.spec("/bin/sh", &["-c", "ls /proc/self/fd; echo word >&3"]);
    spec.channel = Some(theirs.into());
    let done = world.run(spec).await;
    // `ls` itself opens one.
    assert_eq!(done.stdout_text(), "0\n1\n2\n3\n4\n");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut { ours }, &mut text).unwrap();
    assert_eq!(text, "word\n");
}

#[tokio::test]
async fn the_proxy_is_the_only_way_out() {
    let world = world();
    let (send, mut got) = tokio::sync::mpsc::unbounded_channel();
    let serve = std::sync::Arc::new(move |listener: std::net::TcpListener| {
        let send = send.clone();
        std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut text = [0u8; 256];
            let count = std::io::Read::read(&mut peer, &mut text).unwrap();
            send.send(String::from_utf8_lossy(&text[..count]).into_owned()).unwrap();
            std::io::Write::write_all(
                &mut peer,
                b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nyes",
            )
            .unwrap();
        });
    });
    let script = "import urllib.request, socket, os\nprint(urllib.request.urlopen('http://example.com/x').read().decode(), os.environ['https_proxy'], repr(os.environ['NO_PROXY']))\n\
                  for a in (('1.1.1.1', 53), ('169.254.169.254', 80), ('10.0.0.1', 80)):\n  try: socket.create_connection(a, 1); print('HOLE')\n  except OSError: pass";
    let mut spec = world.spec("/usr/bin/python3", &["-c", script]);
    spec.network = jarvis_sandbox::JailNetwork::Proxy { serve };
    let done = world.run(spec).await;
    assert_eq!(done.stdout_text(), "yes http://127.0.0.1:3128 ''\n", "{}", done.stderr_text());
    assert!(got.recv().await.unwrap().starts_with("GET http://example.com/x HTTP/1.1\r\n"));
    assert!(done.layers.iter().any(|layer| layer == "network: proxy only"));
}

#[tokio::test]
async fn the_layers_that_hold_are_told() {
    let world = world();
    let done = world.sh("true").await;
    for layer in [
        "user namespace",
        "process namespace",
        "mount namespace",
        "network: none",
        "no capabilities",
        "no new privileges",
        "resource limits",
        "seccomp",
        "landlock",
    ] {
        assert!(done.layers.iter().any(|known| known == layer), "{layer}: {:?}", done.layers);
    }
    assert!(
        done.layers.iter().any(|layer| layer.starts_with("memory: "))
            && done.layers.iter().any(|layer| layer.starts_with("processes: "))
    );
}

#[tokio::test]
async fn doctor_sees_what_holds() {
    let world = world();
    let rows = world.jail.probe(&world.project).await;
    assert!(rows.len() >= 17, "{rows:?}");
    for row in &rows {
        let may_lack = row.name.ends_with("cgroup");
        assert!(row.in_force || may_lack && row.fix.is_some(), "{row:?}");
    }
    let none =
        jarvis_sandbox::Jail::new(jarvis_sandbox::JailConfig { helper_exe: jails::helper(), without_namespaces: true });
    let rows = none.probe(&world.project).await;
    let row = rows.iter().find(|row| row.name == "jail: mount namespace" || row.name == "jail").unwrap();
    assert!(!row.in_force && row.fix.is_some(), "{rows:?}");
}

#[tokio::test]
async fn jails_beside_each_other_do_not_undo_what_the_other_protects() {
    let world = world();
    std::fs::remove_dir_all(world.project.join(".git")).unwrap();
    let slow = world
        .spec("/bin/sh", &["-c", "sleep 1; mkdir .git && echo HOLE; echo x > .git/config && echo HOLE; echo done"]);
    let (slow, ()) = tokio::join!(world.run(slow), async {
        for _ in 0..5 {
            assert_eq!(world.run(world.spec("/bin/sh", &["-c", "mkdir .git || echo no"])).await.stdout_text(), "no\n");
        }
    });
    assert_eq!(slow.stdout_text(), "done\n");
    assert!(!world.project.join(".git").exists());
}

#[test]
fn all_of_it_as_an_ordinary_user() {
    jails::again_as_nobody("all_of_it_as_an_ordinary_user");
}

#[tokio::test]
async fn another_user_has_that_user_s_rights() {
    let world = world();
    let mut spec = JailSpec::new("/bin/sh", &world.project)
        .args(["-c", "id -u; id -g; id -G; echo x > new && echo HOLE; cat src/main.py"]);
    spec.user = jarvis_sandbox::JailUser::Other { uid: 1, gid: 1 };
    spec.preset = Preset::WorkspaceWrite;
    if !jails::is_root() {
        let e = world.try_run(spec).await.unwrap_err();
        assert!(e.to_string().contains("only root") && e.hint().is_some(), "{e}");
        return;
    }
    // The folders above are the person's own.
    let chmod = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    chmod(&world.home, 0o700);
    let e = world.try_run(spec).await.unwrap_err();
    assert!(e.to_string().contains("cannot be shown"), "{e}");
    world.project.ancestors().take(4).for_each(|path| chmod(path, 0o755));
    let mut spec = JailSpec::new("/bin/sh", &world.project)
        .args(["-c", "id -u; id -g; id -G; echo x > new && echo HOLE; cat src/main.py; cat /etc/shadow && echo HOLE"]);
    spec.user = jarvis_sandbox::JailUser::Other { uid: 1, gid: 1 };
    spec.preset = Preset::WorkspaceWrite;
    let done = world.run(spec).await;
    assert_eq!(done.stdout_text(), "1\n1\n1\nprint(1)\n", "{}", done.stderr_text());
}
