//! The models a provider offers.

use serde_json::Value;

use super::http::{Http, retry_after};
use super::{Endpoint, Wire, classify};
use crate::ModelError;

/// The names of the provider's models, in its order: `GET {base_url}/models`, for Anthropic `/v1/models`.
pub async fn list_models(wire: Wire, endpoint: &Endpoint) -> Result<Vec<String>, ModelError> {
    let http = Http::new(wire, endpoint)?;
    let mut url = http.url(super::provider::path(wire, &endpoint.base_url, "models").as_slice());
    if wire == Wire::Anthropic {
        // The largest page; the default is 20.
        url.query_pairs_mut().append_pair("limit", "1000");
    }
    let path = url.path().to_owned();
    let redact = |error: ModelError| match &endpoint.key {
        Some(key) => error.map_message(|m| key.redact(m)),
        None => error,
    };
    let mut response = http.send(url, None, false, endpoint.idle_timeout).await?;
    let status = response.status();
    if !status.is_success() {
        let after = retry_after(&response);
        let body = http.error_body(&mut response).await;
        return Err(redact(classify::response(status.as_u16(), &path, &body, after).error));
    }
    let body = http.body(&mut response).await?;
    let names = serde_json::from_str::<Value>(&body).ok().and_then(|v| names(&v));
    names.ok_or_else(|| redact(ModelError::Protocol { message: classify::excerpt(&body) }))
}

/// `{"data": [{"id"}]}` by the standard; `{"models": […]}` and a bare list from some servers.
fn names(value: &Value) -> Option<Vec<String>> {
    let list = value.get("data").or_else(|| value.get("models")).unwrap_or(value).as_array()?;
    list.iter().map(|m| m.get("id").or_else(|| m.get("name")).unwrap_or(m).as_str().map(str::to_owned)).collect()
}
