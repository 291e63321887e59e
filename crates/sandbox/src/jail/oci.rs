//! A seccomp profile in the OCI runtime format, as containers use it, with the meaning that libseccomp gives it. What
//! has no such meaning here is refused by name.

use super::filter::{compile, errno, rule};
use super::settle::spec_error;
use crate::error::SandboxError;
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A checked profile. It comes on top of the default filter, so it can only take away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    programs: Vec<BpfProgram>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    default_action: String,
    #[serde(default)]
    default_errno_ret: Option<u32>,
    #[serde(default)]
    architectures: Vec<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    syscalls: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    names: Vec<String>,
    action: String,
    #[serde(default)]
    errno_ret: Option<u32>,
    #[serde(default)]
    args: Option<Vec<Argument>>,
    #[serde(default, rename = "comment")]
    _comment: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Argument {
    index: u8,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

impl Profile {
    /// From the JSON text.
    pub fn parse(text: &str) -> Result<Profile, SandboxError> {
        let document: Document =
            serde_json::from_str(text).map_err(|e| refused(format!("it is not such a profile: {e}")))?;
        document.check()?;
        let otherwise = action(&document.default_action, document.default_errno_ret)?;
        let mut groups: Vec<(SeccompAction, Rules)> = Vec::new();
        for entry in &document.syscalls {
            let matched = action(&entry.action, entry.errno_ret)?;
            // What happens anyway.
            if matched == otherwise {
                continue;
            }
            let at = groups.iter().position(|(known, _)| *known == matched).unwrap_or_else(|| {
                groups.push((matched.clone(), Rules::new()));
                groups.len() - 1
            });
            let rules = entry.rules()?;
            for name in &entry.names {
                match (name.parse::<syscalls::Sysno>(), &matched) {
                    (Ok(call), _) => add(&mut groups[at].1, i64::from(call.id()), &rules),
                    // Another architecture's, or newer than this: not to allow it is what a filter does.
                    (Err(()), SeccompAction::Allow | SeccompAction::Log) => {}
                    (Err(()), _) => {
                        return Err(refused(format!(
                            "the system call `{name}` is not known here, so it cannot be refused"
                        )));
                    }
                }
            }
        }
        build(&otherwise, groups).map(|programs| Profile { programs }).map_err(refused)
    }

    /// To be applied one after the other.
    pub(super) fn programs(&self) -> &[BpfProgram] {
        &self.programs
    }
}

/// One filter knows two actions; of several, the kernel takes the strictest answer.
fn build(otherwise: &SeccompAction, groups: Vec<(SeccompAction, Rules)>) -> Result<Vec<BpfProgram>, String> {
    let mut programs = Vec::new();
    if *otherwise == SeccompAction::Allow {
        for (matched, rules) in groups {
            programs.push(compile(rules, SeccompAction::Allow, matched)?);
        }
        return Ok(programs);
    }
    // The main filter passes everything that has a rule; the others then answer for theirs.
    let mut passed = Rules::new();
    for (matched, rules) in groups {
        rules.iter().for_each(|(call, rules)| add(&mut passed, *call, rules));
        if matched != SeccompAction::Allow {
            programs.push(compile(rules, SeccompAction::Allow, matched)?);
        }
    }
    // Last, because it may refuse to set another.
    programs.push(compile(passed, otherwise.clone(), SeccompAction::Allow)?);
    Ok(programs)
}

/// A call that some rule names without conditions needs no others.
fn add(all: &mut Rules, call: i64, rules: &[SeccompRule]) {
    match all.entry(call) {
        std::collections::btree_map::Entry::Vacant(new) => {
            new.insert(rules.to_vec());
        }
        std::collections::btree_map::Entry::Occupied(mut old) => {
            if rules.is_empty() || old.get().is_empty() {
                old.get_mut().clear();
            } else {
                old.get_mut().extend_from_slice(rules);
            }
        }
    }
}

impl Document {
    fn check(&self) -> Result<(), SandboxError> {
        let own = match std::env::consts::ARCH {
            "x86_64" => "SCMP_ARCH_X86_64",
            "aarch64" => "SCMP_ARCH_AARCH64",
            "riscv64" => "SCMP_ARCH_RISCV64",
            other => return Err(refused(format!("the architecture {other} has no filters"))),
        };
        // Programs of all others are killed, whatever it says of them.
        if !self.architectures.is_empty() && !self.architectures.iter().any(|name| name == own) {
            return Err(refused(format!("it is not for this architecture ({own})")));
        }
        match self
            .flags
            .iter()
            .find(|flag| !["SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_LOG"].contains(&flag.as_str()))
        {
            Some(flag) => Err(refused(format!("the flag `{flag}` is not supported"))),
            None => Ok(()),
        }
    }
}

impl Entry {
    /// Conditions of one entry hold together; several on the same argument are alternatives, as in runc.
    fn rules(&self) -> Result<Vec<SeccompRule>, SandboxError> {
        let args = self.args.as_deref().unwrap_or_default();
        let conditions: Vec<_> = args.iter().map(Argument::condition).collect::<Result<_, _>>()?;
        if conditions.is_empty() {
            return Ok(Vec::new());
        }
        let mut indices: Vec<_> = args.iter().map(|arg| arg.index).collect();
        indices.sort_unstable();
        indices.dedup();
        let alternatives = if indices.len() < args.len() {
            conditions.into_iter().map(|condition| vec![condition]).collect()
        } else {
            vec![conditions]
        };
        alternatives.into_iter().map(|conditions| rule(conditions).map_err(refused)).collect()
    }
}

impl Argument {
    fn condition(&self) -> Result<SeccompCondition, SandboxError> {
        let (op, value) = match self.op.as_str() {
            "SCMP_CMP_NE" => (SeccompCmpOp::Ne, self.value),
            "SCMP_CMP_LT" => (SeccompCmpOp::Lt, self.value),
            "SCMP_CMP_LE" => (SeccompCmpOp::Le, self.value),
            "SCMP_CMP_EQ" => (SeccompCmpOp::Eq, self.value),
            "SCMP_CMP_GE" => (SeccompCmpOp::Ge, self.value),
            "SCMP_CMP_GT" => (SeccompCmpOp::Gt, self.value),
            "SCMP_CMP_MASKED_EQ" => (SeccompCmpOp::MaskedEq(self.value), self.value_two),
            other => return Err(refused(format!("the comparison `{other}` is not known"))),
        };
        SeccompCondition::new(self.index, SeccompCmpArgLen::Qword, op, value).map_err(|e| refused(e.to_string()))
    }
}

fn action(name: &str, number: Option<u32>) -> Result<SeccompAction, SandboxError> {
    Ok(match name {
        "SCMP_ACT_ALLOW" => SeccompAction::Allow,
        "SCMP_ACT_LOG" => SeccompAction::Log,
        "SCMP_ACT_ERRNO" => number.map_or_else(|| errno(libc::EPERM), SeccompAction::Errno),
        "SCMP_ACT_TRAP" => SeccompAction::Trap,
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => SeccompAction::KillThread,
        "SCMP_ACT_KILL_PROCESS" => SeccompAction::KillProcess,
        other => return Err(refused(format!("the action `{other}` is not supported"))),
    })
}

fn refused(why: impl std::fmt::Display) -> SandboxError {
    spec_error(format!("the seccomp profile cannot be used: {why}"), "use `default` or `strict`, or change the profile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_taken_or_refused_by_name() {
        let fine = [
            r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#,
            r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":38,"architectures":["SCMP_ARCH_X86_64","SCMP_ARCH_X86","SCMP_ARCH_AARCH64","SCMP_ARCH_RISCV64"],
                "syscalls":[{"names":["read","write","arm_fadvise64_64"],"action":"SCMP_ACT_ALLOW"},
                            {"names":["mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":13,"args":[]},
                            {"names":["personality"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":0,"op":"SCMP_CMP_EQ"},{"index":0,"value":8,"op":"SCMP_CMP_EQ"}]}]}"#,
        ];
        let counts: Vec<_> = fine.iter().map(|text| Profile::parse(text).unwrap().programs.len()).collect();
        assert_eq!(counts, [0, 2]);
        for (text, word) in [
            ("{", "EOF"),
            (r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#, "SCMP_ACT_NOTIFY"),
            (r#"{"defaultAction":"SCMP_ACT_ALLOW","listenerPath":"/x"}"#, "listenerPath"),
            (r#"{"defaultAction":"SCMP_ACT_ALLOW","flags":["SECCOMP_FILTER_FLAG_SPEC_ALLOW"]}"#, "SPEC_ALLOW"),
            (r#"{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_MIPS"]}"#, "architecture"),
            (
                r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["no_such_call"],"action":"SCMP_ACT_ERRNO"}]}"#,
                "no_such_call",
            ),
            (
                r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"caps":["CAP_BPF"]}}]}"#,
                "includes",
            ),
            (
                r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_ERRNO","args":[{"index":9,"value":0,"op":"SCMP_CMP_EQ"}]}]}"#,
                "argument",
            ),
            (
                r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_ERRNO","args":[{"index":0,"value":0,"op":"LIKE"}]}]}"#,
                "LIKE",
            ),
        ] {
            let e = Profile::parse(text).unwrap_err();
            assert!(e.to_string().contains(word) && e.hint().is_some(), "{text}: {e}");
        }
    }
}
