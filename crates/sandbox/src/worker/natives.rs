//! What the layer around the code needs of Rust. None of it reaches outside the process, but for printing.

use super::intl;
use super::state::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::{digest, hmac};
use rquickjs::{Ctx, Exception, Function, IntoJs, Object, Result, TypedArray, Value};
use std::rc::Rc;
use url::{Url, form_urlencoded, quirks};

pub(super) fn make<'js>(ctx: &Ctx<'js>, state: &Rc<State>) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    let printer = Rc::clone(state);
    native.set("print", Function::new(ctx.clone(), move |text: String| printer.print(&text))?)?;
    let budget = Rc::clone(state);
    native.set("full", Function::new(ctx.clone(), move || budget.full())?)?;
    let clock = Rc::clone(state);
    native.set("now", Function::new(ctx.clone(), move || clock.now())?)?;
    let asker = Rc::clone(state);
    native.set(
        "ask",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, id: u32, head: String, body: Bytes<'js>| {
            let sent = asker.ask(id, &head, raw(&body));
            sent.map_err(|most| Exception::throw_range(&ctx, &format!("more than {most} bytes in one request")))
        })?,
    )?;
    native.set("random", Function::new(ctx.clone(), random)?)?;
    native.set("toBase64", Function::new(ctx.clone(), to_base64)?)?;
    native.set("fromBase64", Function::new(ctx.clone(), from_base64)?)?;
    native.set("encodeUtf8", Function::new(ctx.clone(), encode_utf8)?)?;
    native.set("decodeUtf8", Function::new(ctx.clone(), decode_utf8)?)?;
    native.set("digest", Function::new(ctx.clone(), hash)?)?;
    native.set("hmac", Function::new(ctx.clone(), mac)?)?;
    native.set("urlParse", Function::new(ctx.clone(), url_parse)?)?;
    native.set("urlSet", Function::new(ctx.clone(), url_set)?)?;
    native.set("parseForm", Function::new(ctx.clone(), parse_form)?)?;
    native.set("encodeForm", Function::new(ctx.clone(), encode_form)?)?;
    intl::add(ctx, &native)?;
    Ok(native)
}

type Bytes<'js> = TypedArray<'js, u8>;

/// The bytes in the engine's memory.
fn raw<'a>(bytes: &'a Bytes<'_>) -> &'a [u8] {
    // Sound: no code of the engine runs while a native function holds this, so nothing can move or detach it.
    unsafe { bytes.as_bytes() }.unwrap_or_default()
}

fn random(ctx: Ctx<'_>, length: usize) -> Result<Bytes<'_>> {
    let mut bytes = vec![0u8; length];
    let mut filled = 0;
    while filled < length {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Exception::throw_internal(&ctx, &format!("no random bytes: {e}"))),
        }
    }
    Bytes::new(ctx, bytes)
}

fn to_base64(bytes: Bytes<'_>) -> String {
    STANDARD.encode(raw(&bytes))
}

/// Padding may be there or not, as browsers have it.
fn from_base64<'js>(ctx: Ctx<'js>, text: String) -> Result<Option<Bytes<'js>>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    LENIENT.decode(text).ok().map(|bytes| Bytes::new(ctx, bytes)).transpose()
}

fn encode_utf8(ctx: Ctx<'_>, text: String) -> Result<Bytes<'_>> {
    Bytes::new(ctx, text.into_bytes())
}

/// The text, or null where it must be valid and is not; and how many bytes at the end are an unfinished character.
fn decode_utf8<'js>(ctx: Ctx<'js>, given: Bytes<'js>, fatal: bool, more: bool) -> Result<Vec<Value<'js>>> {
    let mut bytes = raw(&given);
    let mut left = 0;
    if more && std::str::from_utf8(bytes).is_err() {
        // Only an end that further bytes could complete is kept back.
        let last = bytes.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
        let tail = &bytes[bytes.len() - last..];
        if last > 0 && std::str::from_utf8(tail).is_err_and(|e| e.error_len().is_none()) {
            left = last;
            bytes = &bytes[..bytes.len() - last];
        }
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.into_js(&ctx)?,
        Err(_) if fatal => Value::new_null(ctx.clone()),
        Err(_) => String::from_utf8_lossy(bytes).as_ref().into_js(&ctx)?,
    };
    Ok(vec![text, (left as i32).into_js(&ctx)?])
}

fn hash<'js>(ctx: Ctx<'js>, name: String, bytes: Bytes<'js>) -> Result<Bytes<'js>> {
    let algorithm = match name.as_str() {
        "SHA-1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "SHA-256" => &digest::SHA256,
        "SHA-384" => &digest::SHA384,
        "SHA-512" => &digest::SHA512,
        other => return Err(Exception::throw_type(&ctx, &format!("no digest {other}"))),
    };
    let value = digest::digest(algorithm, raw(&bytes));
    Bytes::new(ctx, value.as_ref())
}

fn mac<'js>(ctx: Ctx<'js>, name: String, key: Bytes<'js>, bytes: Bytes<'js>) -> Result<Bytes<'js>> {
    let algorithm = match name.as_str() {
        "SHA-1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "SHA-256" => hmac::HMAC_SHA256,
        "SHA-384" => hmac::HMAC_SHA384,
        "SHA-512" => hmac::HMAC_SHA512,
        other => return Err(Exception::throw_type(&ctx, &format!("no HMAC with {other}"))),
    };
    let key = hmac::Key::new(algorithm, raw(&key));
    let value = hmac::sign(&key, raw(&bytes));
    Bytes::new(ctx, value.as_ref())
}

/// In the order of `FIELDS` in `web.js`.
fn parts(url: &Url) -> Vec<String> {
    [
        quirks::href(url),
        &quirks::origin(url),
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
    ]
    .map(str::to_owned)
    .into()
}

fn url_parse(href: String, base: Option<String>) -> Option<Vec<String>> {
    let base = match base {
        Some(base) => Some(Url::parse(&base).ok()?),
        None => None,
    };
    Url::options().base_url(base.as_ref()).parse(&href).ok().map(|url| parts(&url))
}

/// `None` when the new value does not fit; the URL stays as it was then.
fn url_set(href: String, field: String, value: String) -> Option<Vec<String>> {
    let mut url = Url::parse(&href).ok()?;
    match field.as_str() {
        "href" => quirks::set_href(&mut url, &value).ok()?,
        "protocol" => quirks::set_protocol(&mut url, &value).ok()?,
        "username" => quirks::set_username(&mut url, &value).ok()?,
        "password" => quirks::set_password(&mut url, &value).ok()?,
        "host" => quirks::set_host(&mut url, &value).ok()?,
        "hostname" => quirks::set_hostname(&mut url, &value).ok()?,
        "port" => quirks::set_port(&mut url, &value).ok()?,
        "pathname" => quirks::set_pathname(&mut url, &value),
        "search" => quirks::set_search(&mut url, &value),
        "hash" => quirks::set_hash(&mut url, &value),
        _ => return None,
    }
    Some(parts(&url))
}

fn parse_form(text: String) -> Vec<Vec<String>> {
    form_urlencoded::parse(text.as_bytes()).map(|(name, value)| vec![name.into_owned(), value.into_owned()]).collect()
}

fn encode_form(text: String) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
