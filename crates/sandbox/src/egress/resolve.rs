//! Names are looked up once, every address is checked, and the checked ones are what is connected to.

use super::addresses::is_public;
use futures::future::BoxFuture;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use url::Host;

/// How long a name server may take.
const LOOKUP: Duration = Duration::from_secs(10);

/// Looks a name up. Handed in, so that a test can lie as a hostile name server does.
pub type Resolver = Arc<dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> + Send + Sync>;

/// As the machine is set up to do it.
pub(crate) fn system() -> Resolver {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    #[error("{0} is not found by the name server: {1}")]
    NotFound(String, std::io::Error),
    #[error("the name server did not answer for {0}")]
    Silent(String),
    /// A name is no way around a grant that names the address.
    #[error(
        "{name} resolves to no public address ({found}); only a grant that names such an address itself, with its port, \
         allows it"
    )]
    NotPublic { name: String, found: String },
}

/// The addresses that may be connected to for a host that the policy let through.
pub(crate) async fn resolve(resolver: &Resolver, host: &Host<String>) -> Result<Vec<IpAddr>, Unreachable> {
    let name = match host {
        Host::Ipv4(address) => return Ok(vec![IpAddr::V4(*address)]),
        Host::Ipv6(address) => return Ok(vec![IpAddr::V6(*address)]),
        Host::Domain(name) => name,
    };
    if is_localhost(name) {
        // Only a grant that names it with its port leads here.
        return Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    }
    let found = tokio::time::timeout(LOOKUP, resolver(name.clone())).await;
    let found = found.map_err(|_| Unreachable::Silent(name.clone()))?;
    let found = found.map_err(|e| Unreachable::NotFound(name.clone(), e))?;
    let public: Vec<IpAddr> = found.iter().copied().filter(|address| is_public(*address)).collect();
    if public.is_empty() {
        let found: Vec<String> = found.iter().take(4).map(IpAddr::to_string).collect();
        let found = if found.is_empty() { "to none at all".to_owned() } else { found.join(", ") };
        return Err(Unreachable::NotPublic { name: name.clone(), found });
    }
    Ok(public)
}

/// The name stands for the machine itself, as browsers treat it, and is never looked up.
pub(crate) fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lying(answers: &'static [&'static str]) -> Resolver {
        Arc::new(move |_| {
            Box::pin(async move { Ok(answers.iter().filter_map(|text| text.parse().ok()).collect::<Vec<IpAddr>>()) })
        })
    }

    async fn found(answers: &'static [&'static str], name: &str) -> Result<Vec<String>, String> {
        let host = Host::parse(name).map_err(|e| e.to_string())?;
        let found = resolve(&lying(answers), &host).await.map_err(|e| e.to_string())?;
        Ok(found.iter().map(IpAddr::to_string).collect())
    }

    #[tokio::test]
    async fn of_what_a_name_server_says_only_public_addresses_are_used() {
        assert_eq!(found(&["8.8.8.8", "127.0.0.1"], "a.example").await.unwrap(), ["8.8.8.8"]);
        for lie in [
            &["127.0.0.1"][..],
            &["10.0.0.1", "192.168.1.1"],
            &["169.254.169.254"],
            &["::ffff:169.254.169.254"],
            &["64:ff9b::a9fe:a9fe"],
            &["fd00:ec2::254"],
            &["0.0.0.0"],
            &["::"],
            &[],
        ] {
            let told = found(lie, "a.example").await.unwrap_err();
            assert!(told.contains("no public address"), "{lie:?}: {told}");
        }
    }

    #[tokio::test]
    async fn the_machine_itself_and_addresses_are_not_looked_up() {
        for name in ["localhost", "x.localhost", "LOCALHOST."] {
            assert_eq!(found(&["8.8.8.8"], name).await.unwrap(), ["127.0.0.1", "::1"], "{name}");
        }
        assert_eq!(found(&["8.8.8.8"], "10.0.0.1").await.unwrap(), ["10.0.0.1"]);
    }
}
