//! The system calls that a jailed program has: a list of refused ones, a strict list of allowed ones, or a person's own.

use super::plan::Choice;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};
use std::collections::BTreeMap;

/// Which filter a program gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seccomp {
    /// Everything but what leads out of a jail or deep into the kernel.
    Default,
    /// Only what ordinary programs need for files, memory and their own processes; no sockets, unless for the proxy.
    Strict,
    /// The person's own, on top of the default.
    Profile(super::oci::Profile),
}

/// Refused with "operation not permitted", whatever the arguments.
const REFUSED: [i64; 58] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // statmount, listmount, open_tree_attr, listns: the same numbers on every architecture.
    457,
    458,
    467,
    470,
    libc::SYS_setns,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: [i64; 6] =
    [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib, libc::SYS_ustat, libc::SYS__sysctl];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: [i64; 0] = [];

/// New namespaces of every kind, for `clone` and `unshare`.
const NEW_NAMESPACE: [u64; 8] =
    [0x80, 0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;

const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

/// The domains that every Linux program may have: its own, and those of 32-bit programs' names.
const PERSONALITIES: [u64; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// A program that the host's users start with somebody else's rights is not to be left behind.
const SET_ID: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];
/// Each makes a new file, whose mode counts then.
const MAKES_FILE: [u64; 2] = [libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64];

/// Calls that take a mode, and which argument it is.
const MODES: [(i64, u8); 4] = [
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    // fchmodat2: the same number on every architecture.
    (452, 2),
    (libc::SYS_mknodat, 2),
];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: [(i64, u8); 3] = [(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: [(i64, u8); 0] = [];

/// Calls whose mode counts only with some flags: which arguments both are.
#[cfg(target_arch = "x86_64")]
const OPENS: [(i64, u8, u8); 2] = [(libc::SYS_openat, 2, 3), (libc::SYS_open, 1, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: [(i64, u8, u8); 1] = [(libc::SYS_openat, 2, 3)];

/// Memory that belongs to no process, so that only a cgroup counts it.
const UNCOUNTED: [i64; 3] = [libc::SYS_memfd_create, libc::SYS_memfd_secret, libc::SYS_shmget];

/// Ready to be set.
pub(super) struct Filters {
    default: BpfProgram,
    /// Where there is no network namespace: no sockets but pairs.
    isolated: BpfProgram,
    strict: BpfProgram,
    strict_sockets: BpfProgram,
    uncounted: BpfProgram,
}

impl Filters {
    pub(super) fn new() -> Result<Filters, String> {
        Ok(Filters {
            default: refuse(true)?,
            isolated: refuse(false)?,
            strict: super::strict::allow(false)?,
            strict_sockets: super::strict::allow(true)?,
            uncounted: compile(
                UNCOUNTED.iter().map(|call| (*call, vec![])).collect(),
                SeccompAction::Allow,
                errno(libc::ENOSYS),
            )?,
        })
    }

    /// To be applied one after the other. `counted`: a cgroup limits memory.
    pub(super) fn programs(&self, choice: &Choice, network_namespace: bool, counted: bool) -> Vec<BpfProgram> {
        let base = if network_namespace { &self.default } else { &self.isolated };
        let more = match choice {
            Choice::Default => vec![],
            Choice::Strict { sockets: false } => vec![self.strict.clone()],
            Choice::Strict { sockets: true } => vec![self.strict_sockets.clone()],
            Choice::Programs(programs) => programs.iter().map(|program| unpack(program)).collect(),
        };
        let strict = matches!(choice, Choice::Strict { .. });
        let uncounted = (!counted || strict).then(|| self.uncounted.clone());
        // The one that was chosen comes last, because it may refuse to set another.
        std::iter::once(base.clone()).chain(uncounted).chain(more).collect()
    }
}

pub(super) fn errno(number: i32) -> SeccompAction {
    SeccompAction::Errno(number.unsigned_abs())
}

pub(super) fn compare(index: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, String> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, op, value).map_err(|e| e.to_string())
}

pub(super) fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, String> {
    SeccompRule::new(conditions).map_err(|e| e.to_string())
}

/// True for all values but these.
fn other_than(index: u8, values: &[u64]) -> Result<SeccompRule, String> {
    rule(values.iter().map(|value| compare(index, SeccompCmpOp::Ne, *value)).collect::<Result<_, _>>()?)
}

fn refuse(sockets: bool) -> Result<BpfProgram, String> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().chain(&REFUSED_HERE).map(|call| (*call, vec![])).collect();
    let namespaces = NEW_NAMESPACE.map(|flag| rule(vec![compare(0, SeccompCmpOp::MaskedEq(flag), flag)?]));
    let namespaces: Vec<_> = namespaces.into_iter().collect::<Result<_, String>>()?;
    // The lowest byte of clone's flags is a signal.
    rules.insert(libc::SYS_clone, namespaces[1..].to_vec());
    rules.insert(libc::SYS_unshare, namespaces);
    let terminal = [TIOCSTI, TIOCLINUX].map(|command| rule(vec![compare(1, SeccompCmpOp::Eq, command)?]));
    rules.insert(libc::SYS_ioctl, terminal.into_iter().collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_personality, vec![other_than(0, &PERSONALITIES)?]);
    if sockets {
        // Of the kernel's own sockets, only the one that lists network devices.
        let kernel = rule(vec![compare(0, SeccompCmpOp::Eq, AF_NETLINK)?, compare(2, SeccompCmpOp::Ne, 0)?])?;
        rules.insert(libc::SYS_socket, vec![other_than(0, &[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK])?, kernel]);
    } else {
        rules.insert(libc::SYS_socket, vec![]);
    }
    rules.insert(libc::SYS_socketpair, vec![other_than(0, &[AF_UNIX])?]);
    let has = |index, bit| compare(index, SeccompCmpOp::MaskedEq(bit), bit);
    for (call, mode) in MODES.into_iter().chain(MODES_HERE) {
        rules.insert(call, SET_ID.iter().map(|bit| rule(vec![has(mode, *bit)?])).collect::<Result<_, _>>()?);
    }
    for (call, flags, mode) in OPENS {
        let pairs = MAKES_FILE.iter().flat_map(|make| SET_ID.iter().map(move |bit| (*make, *bit)));
        let both = pairs.map(|(make, bit)| rule(vec![has(flags, make)?, has(mode, bit)?]));
        rules.insert(call, both.collect::<Result<_, _>>()?);
    }
    compile(rules, SeccompAction::Allow, errno(libc::EPERM))
}

/// With what all filters begin with: calls of another numbering are unknown here, and so are `clone3` and `openat2`, whose
/// flags a filter cannot see. Programs then use `clone` and `openat`.
pub(super) fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, String> {
    let arch = std::env::consts::ARCH.try_into().map_err(|e: seccompiler::BackendError| e.to_string())?;
    let filter = SeccompFilter::new(rules, otherwise, matched, arch).map_err(|e| e.to_string())?;
    let rest: BpfProgram = filter.try_into().map_err(|e: seccompiler::BackendError| e.to_string())?;
    let unknown = sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::ENOSYS as u32 };
    // Load the call's number; compare; return.
    let mut program = vec![
        sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
        sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_clone3 as u32 },
        unknown.clone(),
        sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_openat2 as u32 },
        unknown.clone(),
    ];
    if cfg!(target_arch = "x86_64") {
        program.extend([sock_filter { code: 0x35, jt: 0, jf: 1, k: 0x4000_0000 }, unknown]);
    }
    program.extend(rest);
    Ok(program)
}

pub(super) fn pack(program: &[sock_filter]) -> Vec<u64> {
    let part =
        |i: &sock_filter| u64::from(i.code) << 48 | u64::from(i.jt) << 40 | u64::from(i.jf) << 32 | u64::from(i.k);
    program.iter().map(part).collect()
}

fn unpack(program: &[u64]) -> BpfProgram {
    let part = |i: &u64| sock_filter { code: (i >> 48) as u16, jt: (i >> 40) as u8, jf: (i >> 32) as u8, k: *i as u32 };
    program.iter().map(part).collect()
}
