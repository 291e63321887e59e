//! What the providers' client and the download of models share.

/// Of the two rustls providers that could be had, ring. An error means that the process has chosen one already, which
/// serves as well.
pub(crate) fn choose_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The cause at the bottom ("Connection refused"), where the outer texts only name the layers.
pub(crate) fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
