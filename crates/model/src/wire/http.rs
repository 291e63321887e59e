//! One HTTP exchange with a provider: connect, send, read with limits in time and size.

use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use std::time::{Duration, SystemTime};

use super::{Endpoint, Wire};
use crate::ModelError;
use crate::net::{choose_tls, innermost};

/// The most that is read of an answer, in bytes.
const MAX_BODY: usize = 64 << 20;
/// The most that is read of an error's body, in bytes.
const MAX_ERROR_BODY: usize = 64 << 10;

/// A client for one endpoint, with what does not change between requests.
pub(super) struct Http {
    client: Client,
    base: Url,
    /// `host` or `host:port`, for messages; never holds credentials.
    pub host: String,
    idle: Duration,
    connect: Duration,
}

impl Http {
    pub fn new(wire: Wire, endpoint: &Endpoint) -> Result<Self, ModelError> {
        let misset = |message: String, hint: &str| ModelError::Load { message, hint: hint.to_owned() };
        let name = &endpoint.provider;
        let base = Url::parse(endpoint.base_url.trim())
            .ok()
            .filter(|u| matches!(u.scheme(), "http" | "https") && u.host_str().is_some())
            .ok_or_else(|| {
                misset(
                    format!("the base_url of {name} is not an http or https address"),
                    "write it in config like https://api.openai.com/v1",
                )
            })?;
        let headers = headers(wire, endpoint).map_err(|what| {
            misset(
                format!("{what} of {name} holds characters that an HTTP header cannot carry"),
                "set it again, without line breaks, quotation marks or spaces around it",
            )
        })?;
        choose_tls();
        let mut builder = Client::builder()
            .user_agent(concat!("jarvis/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(endpoint.connect_timeout)
            // A redirect would carry the key, in a header that no client knows as secret, to another host.
            .redirect(reqwest::redirect::Policy::none());
        if base.scheme() == "http" {
            // Plain HTTP must work where no root certificates are installed.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|e| {
            misset(
                format!("no HTTPS client: {}", innermost(&e)),
                "install the system's root certificates (ca-certificates)",
            )
        })?;
        let host = match (base.host_str(), base.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        Ok(Self { client, base, host, idle: endpoint.idle_timeout, connect: endpoint.connect_timeout })
    }

    /// `base_url` with `segments` after its path; a query that it has stays.
    pub fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// `first_byte` bounds the wait for the response's head.
    pub async fn post(
        &self,
        url: Url,
        body: Vec<u8>,
        stream: bool,
        first_byte: Duration,
    ) -> Result<Response, ModelError> {
        let request = self.client.post(url).header(CONTENT_TYPE, "application/json").body(body);
        let request = request.header(ACCEPT, if stream { "text/event-stream" } else { "application/json" });
        match tokio::time::timeout(first_byte, request.send()).await {
            Err(_) => Err(self.hung(first_byte)),
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => Err(self.hung(self.connect)),
            Ok(Err(error)) => Err(ModelError::Network { host: self.host.clone(), message: innermost(&error) }),
        }
    }

    /// Nothing here unpacks an answer, and nothing asked for a packed one.
    pub fn check_encoding(response: &Response) -> Result<(), ModelError> {
        let encoding = response.headers().get(CONTENT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
        if encoding.is_empty() || encoding.eq_ignore_ascii_case("identity") {
            return Ok(());
        }
        let message = format!("the server sent it packed ({encoding}), which it was not asked for");
        Err(ModelError::Protocol { message })
    }

    /// The next bytes of the body; `None` at its end.
    pub async fn chunk(
        &self,
        response: &mut Response,
        wait: Duration,
    ) -> Result<Option<impl AsRef<[u8]> + use<>>, ModelError> {
        match tokio::time::timeout(wait, response.chunk()).await {
            Err(_) => Err(self.hung(wait)),
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(ModelError::Broken { message: format!("{}: {}", self.host, innermost(&error)) }),
        }
    }

    /// The whole body. Bytes that are not UTF-8 are replaced; JSON has none.
    pub async fn body(&self, response: &mut Response) -> Result<String, ModelError> {
        let mut body = Vec::new();
        while let Some(bytes) = self.chunk(response, self.idle).await? {
            body.extend_from_slice(bytes.as_ref());
            if body.len() > MAX_BODY {
                return Err(ModelError::Protocol { message: format!("longer than {} MiB", MAX_BODY >> 20) });
            }
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// As much of an error's body as arrives; the status has told what matters, so a body that breaks off is no
    /// error of its own.
    pub async fn error_body(&self, response: &mut Response) -> String {
        let mut body = Vec::new();
        while let Ok(Some(bytes)) = self.chunk(response, self.idle.min(Duration::from_secs(10))).await {
            body.extend_from_slice(bytes.as_ref());
            if body.len() > MAX_ERROR_BODY {
                body.truncate(MAX_ERROR_BODY);
                break;
            }
        }
        String::from_utf8_lossy(&body).into_owned()
    }

    fn hung(&self, waited: Duration) -> ModelError {
        ModelError::Timeout { host: self.host.clone(), seconds: waited.as_secs_f64().ceil() as u64 }
    }
}

fn headers(wire: Wire, endpoint: &Endpoint) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    if let Some(key) = &endpoint.key {
        let (name, value) = match wire {
            Wire::OpenAi => ("authorization", format!("Bearer {}", key.expose())),
            Wire::Anthropic => ("x-api-key", key.expose().to_owned()),
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| "the key".to_owned())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    if wire == Wire::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    for (name, value) in &endpoint.extra_headers {
        let bad = |_| format!("the header {name:?}");
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| format!("the header {name:?}"))?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name.trim()).map_err(bad)?, value);
    }
    Ok(headers)
}

/// `Retry-After` in seconds or as a date, or the finer `retry-after-ms` of some providers.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let text = |name: &str| response.headers().get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|t| t.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let after = text("retry-after")?;
    match after.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        // A date already past means now.
        Err(_) => {
            let date = httpdate::parse_http_date(after).ok()?;
            Some(date.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_are_logged_show_no_secret() {
        let endpoint = crate::wire::payload_tests::endpoint("https://api.example.com", "m");
        for wire in [Wire::OpenAi, Wire::Anthropic] {
            let shown = format!("{:?}", headers(wire, &endpoint).unwrap());
            assert!(shown.contains("x-token") && !shown.contains("hidden") && !shown.contains("sk-secret"), "{shown}");
        }
    }
}
