//! Landlock with no rule at all: nothing in any file system and, as far as the kernel knows of these, no TCP, no
//! abstract sockets, no signals to outside.

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope,
};

/// How the layer is called where the kernel knows all that is asked of it, and where only some.
const WHOLE: &str = "landlock";
pub(crate) const IN_PART: &str = "landlock (in part)";

/// Accesses are handled as far as the kernel knows them; Landlock that is not there at all is an error. The name of the
/// layer that holds.
pub(super) fn enter() -> Result<&'static str, String> {
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
        Ok(RulesetStatus::FullyEnforced) => Ok(WHOLE),
        Ok(RulesetStatus::PartiallyEnforced) => Ok(IN_PART),
        Ok(RulesetStatus::NotEnforced) => Err("not in this kernel, or not switched on".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}
