//! Landlock with no rule at all: nothing in any file system, no TCP, no abstract sockets, no signals to outside.

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope,
};

/// Accesses are handled as far as the kernel knows them; Landlock that is not there at all is an error.
pub(super) fn enter() -> Result<(), String> {
    let restrict = || -> Result<RulesetStatus, RulesetError> {
        let abi = ABI::V6;
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?
            .handle_access(AccessNet::from_all(abi))?
            .scope(Scope::from_all(abi))?
            .create()?
            .restrict_self()?;
        Ok(status.ruleset)
    };
    match restrict() {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => Ok(()),
        Ok(RulesetStatus::NotEnforced) => Err("not in this kernel, or not switched on".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}
