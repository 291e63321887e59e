//! Landlock on top of the jail's own root: a second wall around the same files.

use super::plan::{Mount, Plan};
use ::landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};
use std::path::Path;

/// From inside the new root. Accesses are handled as far as the kernel knows them.
pub(super) fn enter(plan: &Plan) -> Result<(), String> {
    let abi = ABI::V6;
    let all = AccessFs::from_all(abi);
    let read = AccessFs::from_read(abi);
    let restrict = || -> Result<RulesetStatus, RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .scope(Scope::from_all(abi))?
            .create()?;
        let whole = if plan.whole || !plan.read_only_root { all } else { read };
        let shown = plan.mounts.iter().filter_map(|mount| match mount {
            Mount::Show { path, write: true } => Some((Path::new(path.as_os()), all)),
            _ => None,
        });
        for (path, access) in
            [("/", whole), ("/tmp", all), ("/dev", all)].map(|(p, a)| (Path::new(p), a)).into_iter().chain(shown)
        {
            let Ok(fd) = PathFd::new(path) else { continue };
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(abi) };
            ruleset = ruleset.add_rule(PathBeneath::new(fd, access))?;
        }
        Ok(ruleset.restrict_self()?.ruleset)
    };
    match restrict() {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => Ok(()),
        Ok(RulesetStatus::NotEnforced) => Err("not in this kernel, or not switched on".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}
