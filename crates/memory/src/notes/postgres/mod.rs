//! Notes of a team: one database, a space of its own for each team. The table is the truth here. Chinese is found as
//! in the other store: the words are cut before they reach the server.

mod query;
mod schema;
mod store;

use super::{Embed, MemoryError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::{Client, Config, NoTls, config::Host, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Notes in a PostgreSQL server with pgvector. Cloning is cheap; the clones share a connection.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
    embedder: Option<Arc<dyn Embed>>,
}

struct Inner {
    config: Config,
    tls: Option<rustls::ClientConfig>,
    space: String,
    /// Made anew when the server has closed it.
    client: Mutex<Option<Client>>,
}

fn server(error: &tokio_postgres::Error) -> MemoryError {
    // By itself it says only `db error`.
    let detail = error.as_db_error().map(|e| e.message().to_owned());
    MemoryError::Server(detail.unwrap_or_else(|| {
        std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
    }))
}

/// On this machine, so that nobody between can listen.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        Host::Unix(_) => true,
    }
}

/// How long a server may take to answer the first time.
const CONNECT: Duration = Duration::from_secs(5);

/// Certificates as this machine trusts them.
fn encrypted() -> Result<rustls::ClientConfig, MemoryError> {
    use rustls_platform_verifier::BuilderVerifierExt;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(|e| MemoryError::Server(format!("TLS cannot be set up: {e}")))?;
    Ok(config.with_no_client_auth())
}

impl PostgresStore {
    /// The server is connected to when it is needed: over TLS, unless it is this machine.
    pub fn new(url: &str, space: &str, embedder: Option<Arc<dyn Embed>>) -> Result<Self, MemoryError> {
        let config: Config = url.parse().map_err(|e| server(&e))?;
        let here = !config.get_hosts().is_empty() && config.get_hosts().iter().all(is_here);
        Self::configured(config, space, if here { None } else { Some(encrypted()?) }, embedder)
    }

    /// `url`: `postgres://USER:PASSWORD@HOST/DATABASE`. `space`: whose notes; spaces do not see each other. With `tls`
    /// the connection is encrypted, and must be where the server is another machine.
    pub async fn connect(
        url: &str,
        space: &str,
        tls: Option<rustls::ClientConfig>,
        embedder: Option<Arc<dyn Embed>>,
    ) -> Result<Self, MemoryError> {
        let config: Config = url.parse().map_err(|e| server(&e))?;
        let store = Self::configured(config, space, tls, embedder)?;
        drop(store.inner.client().await?);
        Ok(store)
    }

    fn configured(
        mut config: Config,
        space: &str,
        tls: Option<rustls::ClientConfig>,
        embedder: Option<Arc<dyn Embed>>,
    ) -> Result<Self, MemoryError> {
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if tls.is_some() {
            config.ssl_mode(SslMode::Require);
        } else if config.get_hosts().is_empty() || !config.get_hosts().iter().all(is_here) {
            let why = "a server on another machine is only spoken to over TLS, and none is set up";
            return Err(MemoryError::Server(why.to_owned()));
        }
        if space.trim().is_empty() || space.contains('\0') {
            return Err(MemoryError::Invalid("the space needs a name".to_owned()));
        }
        let inner = Inner { config, tls, space: space.to_owned(), client: Mutex::new(None) };
        Ok(Self { inner: Arc::new(inner), embedder })
    }
}

/// A connection that is there.
struct Connected<'a>(MutexGuard<'a, Option<Client>>);

impl Connected<'_> {
    fn client(&mut self) -> Result<&mut Client, MemoryError> {
        self.0.as_mut().ok_or_else(|| MemoryError::Server("the connection is gone".to_owned()))
    }
}

impl Inner {
    async fn client(&self) -> Result<Connected<'_>, MemoryError> {
        let mut slot = self.client.lock().await;
        if slot.as_ref().is_none_or(Client::is_closed) {
            let mut client = match &self.tls {
                Some(tls) => self.open(MakeRustlsConnect::new(tls.clone())).await?,
                None => self.open(NoTls).await?,
            };
            schema::migrate(&mut client).await?;
            *slot = Some(client);
        }
        Ok(Connected(slot))
    }

    async fn open<T>(&self, tls: T) -> Result<Client, MemoryError>
    where
        T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>,
        T::Stream: Send + 'static,
    {
        let (client, connection) = self.config.connect(tls).await.map_err(|e| server(&e))?;
        // How it ended is told by the next use of the client.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_elsewhere_is_not_spoken_to_in_the_clear() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for url in [
            "postgres://u:p@db.example.com/x",
            "postgres://u@localhost,10.0.0.1/x",
            "postgres:///x",
            "host=192.168.1.2 user=x",
        ] {
            let error = runtime.block_on(PostgresStore::connect(url, "s", None, None)).err();
            assert!(error.is_some_and(|e| e.to_string().contains("TLS")), "{url}");
        }
        let error = runtime.block_on(PostgresStore::connect("postgres://u@127.0.0.1:1/x", "s", None, None)).err();
        assert!(error.is_some_and(|e| !e.to_string().contains("TLS")), "tried");
    }
}
