//! The system calls that are left to a worker. Any other kills it.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use std::collections::BTreeMap;

/// Memory, clocks, random bytes, reading and writing the one open descriptor, and the end.
const ALLOWED: [i64; 24] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_sched_yield,
    libc::SYS_ppoll,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Built once, set in every worker.
pub(crate) struct Filter(BpfProgram);

impl Filter {
    pub(crate) fn new() -> Result<Filter, String> {
        let build = || -> Result<BpfProgram, seccompiler::BackendError> {
            let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.into_iter().map(|call| (call, vec![])).collect();
            // Memory that is never executable.
            let exec = libc::PROT_EXEC as u64;
            let not_exec = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(exec), 0)?;
            for call in [libc::SYS_mmap, libc::SYS_mprotect] {
                rules.insert(call, vec![SeccompRule::new(vec![not_exec.clone()])?]);
            }
            // Its own limits, which can only go down: the hard ones are set.
            let own = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 0)?;
            rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![own])?]);
            let arch = std::env::consts::ARCH.try_into()?;
            SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)?.try_into()
        };
        build().map(Filter).map_err(|e| e.to_string())
    }

    pub(crate) fn apply(&self) -> Result<(), String> {
        apply_filter(&self.0).map_err(|e| e.to_string())
    }
}
