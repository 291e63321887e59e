//! Secrets that a server of the person's own choice gets in the clear, because it has to show them where nobody can put
//! them in on the way out; and the same secrets taken out of all that it says.

use super::secrets::{Secret, Secrets, Vault};
use crate::error::SandboxError;
use serde_json::Value;

/// How one is named in a text: `${secret:NAME}`.
const OPEN: &str = "${secret:";

/// What was handed out.
#[derive(Default)]
pub struct Handed {
    vault: Vault,
}

impl Handed {
    /// `text` with the values in place of their names. `may_have` says why a secret may not be handed out here.
    pub(crate) fn fill(
        &self,
        secrets: Option<&Secrets>,
        text: &str,
        may_have: impl Fn(&str, &Secret) -> Result<(), String>,
    ) -> Result<String, SandboxError> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let Some((name, behind)) = after.split_once('}') else {
                return Err(wrong(format!("`{OPEN}` without `}}`"), "write ${secret:NAME}"));
            };
            let unknown = || {
                let how = format!("jarvis secret set {name} --host HOST");
                wrong(format!("there is no secret `{name}`"), &how)
            };
            let found = secrets.ok_or_else(unknown)?(name).map_err(|e| wrong(e, "see jarvis secret list"))?;
            let secret = found.ok_or_else(unknown)?;
            may_have(name, &secret).map_err(|why| {
                let how = format!("jarvis secret set {name} --host HOST binds it to another host");
                wrong(format!("the secret `{name}` is not handed out: {why}"), &how)
            })?;
            filled.push_str(before);
            filled.push_str(&secret.value);
            self.vault.tell(name, secret).map_err(|refusal| wrong(refusal.message, "set it again"))?;
            rest = behind;
        }
        Ok(filled + rest)
    }

    /// Without any value that was handed out, in whatever form.
    pub fn redact(&self, text: String) -> String {
        self.vault.redact(text)
    }

    pub fn redact_value(&self, value: &mut Value) {
        self.vault.redact_value(value);
    }
}

fn wrong(what: String, fix: &str) -> SandboxError {
    SandboxError::Spec { what, fix: fix.to_owned() }
}
