//! A way to one HTTP server that a person set up, for longer than one request: each connection goes to a checked
//! address, each redirect stays with the server, and its headers may hold secrets.

use crate::broker::fetch::Checked;
use crate::broker::{Handed, Secret};
use crate::egress::{EgressPolicy, system, without_dot};
use crate::error::SandboxError;
use crate::process::Processes;
use jarvis_policy::ToolPermit;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

const REDIRECTS: usize = 5;
const CONNECT: Duration = Duration::from_secs(15);

/// What all requests to the server go through.
pub struct Outside {
    pub client: reqwest::Client,
    pub url: String,
    pub handed: Handed,
}

impl Processes {
    /// The permit names the host. Values of `headers` may name secrets, `${secret:NAME}`: one is sent where it may be
    /// sent, as in a request of a capability.
    pub fn outside(
        &self,
        permit: ToolPermit,
        url: &str,
        headers: &BTreeMap<String, String>,
    ) -> Result<Outside, SandboxError> {
        let url = Url::parse(url).map_err(|e| wrong(format!("{url} is no URL: {e}")))?;
        let url = without_dot(url);
        let policy = EgressPolicy::parse(&permit.into_grants().network).map_err(|e| wrong(e.to_string()))?;
        policy.check("POST", &url).map_err(|e| wrong(e.to_string()))?;
        let handed = Handed::default();
        let mut filled = HeaderMap::new();
        for (name, value) in headers {
            let may_have = |_: &str, secret: &Secret| {
                let bound = EgressPolicy::parse(&secret.hosts).map_err(|e| e.to_string())?;
                match bound.check_secret("POST", &url) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err("it would be sent unencrypted".to_owned()),
                    Err(e) => Err(e.to_string()),
                }
            };
            let value = handed.fill(self.access().secrets.as_ref(), value, may_have)?;
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(format!("`{name}` is no header")))?;
            let mut value =
                HeaderValue::from_str(&value).map_err(|_| wrong(format!("the value of {name} fits no header")))?;
            // Kept out of HTTP/2's tables and of debug output.
            value.set_sensitive(true);
            filled.append(name, value);
        }
        // Another part of the program may have chosen already; either choice is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let resolver = self.access().resolver.clone().unwrap_or_else(system);
        let client = reqwest::Client::builder()
            .dns_resolver(Arc::new(Checked(resolver)))
            .redirect(same_server(policy, url.clone()))
            .no_proxy()
            .connect_timeout(CONNECT)
            .default_headers(filled)
            .user_agent(concat!("jarvis/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| wrong(e.to_string()))?;
        Ok(Outside { client, url: url.to_string(), handed })
    }
}

/// Its headers may hold keys, which no other server shall see.
fn same_server(policy: EgressPolicy, url: Url) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        if attempt.previous().len() > REDIRECTS {
            return attempt.error(format!("more than {REDIRECTS} redirects"));
        }
        if attempt.url().origin() != url.origin() {
            let place = attempt.url().origin().ascii_serialization();
            return attempt
                .error(format!("it redirects to {place}; if that is right, set the server up by that address"));
        }
        match policy.check("POST", attempt.url()) {
            Ok(()) => attempt.follow(),
            Err(problem) => attempt.error(problem),
        }
    })
}

fn wrong(what: String) -> SandboxError {
    SandboxError::Spec { what, fix: "see jarvis mcp add --help".to_owned() }
}
