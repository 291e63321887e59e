//! Connects to the address that was checked, and to no other.

use super::Shared;
use super::answer::Problem;
use crate::egress::{HostTally, Unreachable, resolve};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use url::Host;

/// How long one address may take to answer.
const CONNECT: Duration = Duration::from_secs(8);

/// Addresses of one name that are tried.
const MOST_ADDRESSES: usize = 4;

impl Shared {
    pub(super) async fn connect(
        &self,
        host: &Host<String>,
        port: u16,
        tally: &HostTally,
    ) -> Result<TcpStream, Problem> {
        let addresses = resolve(&self.resolver, host).await.map_err(|e| match e {
            Unreachable::NotPublic { .. } => {
                tally.denied();
                Problem::denied(e)
            }
            Unreachable::NotFound(..) | Unreachable::Silent(_) => Problem::upstream(e.to_string()),
        })?;
        tally.requested();
        let mut why = String::new();
        for address in addresses.into_iter().take(MOST_ADDRESSES) {
            match tokio::time::timeout(CONNECT, TcpStream::connect(SocketAddr::new(address, port))).await {
                Ok(Ok(stream)) => {
                    // A nicety: without it small packets only come later.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(e)) => why = e.to_string(),
                Err(_) => why = "no answer".to_owned(),
            }
        }
        Err(Problem::upstream(format!("{host}:{port} cannot be reached: {why}")))
    }

    /// The host as it is counted.
    pub(super) fn place(host: &Host<String>, port: u16) -> String {
        if matches!(port, 80 | 443) { host.to_string() } else { format!("{host}:{port}") }
    }
}
