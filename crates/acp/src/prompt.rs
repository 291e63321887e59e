//! What a client's prompt says to the model: text, images, files by name or with their content.

use crate::errors::{told, wrong};
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource, ResourceLink};
use jarvis_agent::Input;
use jarvis_protocol::{ErrorBody, ErrorKind, Image};

pub(crate) fn input(blocks: Vec<ContentBlock>) -> Result<Input, Error> {
    let mut input = Input::default();
    for block in blocks {
        let said = match block {
            ContentBlock::Text(text) => text.text,
            ContentBlock::Image(image) => {
                input.images.push(picture(&image.data, image.uri.as_deref())?);
                continue;
            }
            ContentBlock::ResourceLink(link) => linked(&link),
            ContentBlock::Resource(embedded) => match embedded.resource {
                EmbeddedResourceResource::TextResourceContents(file) => content(&file.uri, &file.text),
                EmbeddedResourceResource::BlobResourceContents(blob) => {
                    if !blob.mime_type.as_deref().is_some_and(|kind| kind.starts_with("image/")) {
                        let kind = blob.mime_type.as_deref().unwrap_or("of no named kind");
                        return Err(wrong(format!("{} is {kind}: only texts and images are taken", blob.uri)));
                    }
                    input.images.push(picture(&blob.blob, Some(&blob.uri))?);
                    continue;
                }
                _ => return Err(unknown()),
            },
            ContentBlock::Audio(_) => return Err(wrong("audio is not taken: promptCapabilities.audio is false")),
            _ => return Err(unknown()),
        };
        input.text.push_str(&said);
    }
    Ok(input)
}

fn unknown() -> Error {
    wrong("the prompt has content of a kind that is not known here")
}

fn picture(data: &str, source: Option<&str>) -> Result<Image, Error> {
    Image::from_base64(data, source).map_err(|e| told(ErrorBody::new(ErrorKind::Usage, e.to_string())))
}

/// By its path where it is a file of this machine: tools are given paths.
fn linked(link: &ResourceLink) -> String {
    let place = path(&link.uri).unwrap_or_else(|| link.uri.clone());
    let about = link.description.as_deref().or(link.title.as_deref());
    let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
    format!(" [{}]({place}){about} ", link.name)
}

fn content(uri: &str, text: &str) -> String {
    let place = path(uri).unwrap_or_else(|| uri.to_owned());
    format!("\n\n{place}:\n{}\n\n", crate::tools::fenced(text))
}

/// The path of a `file:` address.
fn path(uri: &str) -> Option<String> {
    let raw = uri.strip_prefix("file://")?;
    let raw = raw.split(['?', '#']).next().unwrap_or(raw);
    let from = raw.find('/')?;
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes()[from..].iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_their_paths() {
        assert_eq!(path("file:///w/a%20b.rs#L3"), Some("/w/a b.rs".to_owned()));
        assert_eq!(path("file:///w/%E6%96%87.txt"), Some("/w/文.txt".to_owned()));
        assert_eq!(path("file://localhost/w"), Some("/w".to_owned()));
        assert_eq!((path("https://a.example/"), path("file:///a%f"), path("file:///%ff")), (None, None, None));
    }

    #[test]
    fn a_prompt_keeps_its_order_and_what_cannot_be_read_is_said() {
        let block = |json: serde_json::Value| serde_json::from_value::<ContentBlock>(json).unwrap();
        use serde_json::json;
        let input = input(vec![
            block(json!({"type": "text", "text": "看"})),
            block(json!({"type": "resource_link", "name": "a.rs", "uri": "file:///w/a.rs"})),
            block(json!({"type": "resource", "resource": {"uri": "file:///w/b.rs", "text": "fn b() {}"}})),
        ]);
        assert_eq!(input.unwrap().text, "看 [a.rs](/w/a.rs) \n\n/w/b.rs:\n```\nfn b() {}\n```\n\n");
        let bad = [
            json!({"type": "audio", "data": "", "mimeType": "audio/wav"}),
            json!({"type": "image", "data": "!!", "mimeType": "image/png"}),
            json!({"type": "resource", "resource": {"uri": "file:///w/b.zip", "blob": "AA==", "mimeType": "application/zip"}}),
        ];
        for json in bad {
            let error = super::input(vec![block(json)]).unwrap_err();
            assert_eq!(i32::from(error.code), -32602, "{error:?}");
        }
    }
}
