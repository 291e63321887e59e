//! Images by path: named with `--image`, or in a message, as they are typed or dragged into a terminal.

use crate::error::{Outcome, unreadable, usage};
use jarvis_protocol::{Image, MAX_IMAGE_BYTES, percent_decoded};
use std::io::Read;
use std::path::{Path, PathBuf};

const ENDINGS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// An image from a file. Nothing but a plain file is opened: a pipe would wait.
pub fn load(path: &Path) -> Outcome<Image> {
    let about = std::fs::metadata(path).map_err(|e| unreadable(path, &e))?;
    if !about.is_file() {
        return Err(usage(format!("{} is no file", path.display()), "name an image: PNG, JPEG, GIF or WebP"));
    }
    let file = std::fs::File::open(path).map_err(|e| unreadable(path, &e))?;
    let mut bytes = Vec::new();
    file.take(MAX_IMAGE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|e| unreadable(path, &e))?;
    let name = path.file_name().map(|name| name.to_string_lossy());
    Image::from_bytes(&bytes, name.as_deref())
        .map_err(|e| usage(format!("{}: {e}", path.display()), "name an image: PNG, JPEG, GIF or WebP"))
}

/// For a model that is known to look at none, before anything is fetched for it.
pub fn fit(images: &[Image], model: &str, takes_images: bool) -> Outcome {
    if images.is_empty() || takes_images {
        return Ok(());
    }
    Err(usage(
        format!("{model} looks at no images; nothing was sent"),
        "another model does: --model PROVIDER/MODEL; `providers.NAME.images` in the settings says whether one does",
    ))
}

/// A path in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub path: PathBuf,
    /// It was dragged in or written out: from the root, the home folder, or as a URL. A bare name may be meant as a word.
    pub whole: bool,
}

/// Paths of images in a message that are there. `home` is what `~` means.
pub fn named(text: &str, home: Option<&Path>) -> Vec<Named> {
    let mut found: Vec<Named> = Vec::new();
    for word in words(text) {
        let (path, whole) = match word.strip_prefix("file://") {
            Some(rest) => (PathBuf::from(percent_decoded(rest.strip_prefix("localhost").unwrap_or(rest))), true),
            None => match (word.strip_prefix("~/"), home) {
                (Some(below), Some(home)) => (home.join(below), true),
                _ => (PathBuf::from(&word), word.starts_with('/')),
            },
        };
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let is_image = ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()));
        if is_image && path.is_file() && !found.iter().any(|named| named.path == path) {
            found.push(Named { path, whole });
        }
    }
    found
}

/// Words as a shell reads them: quotes and backslashes keep white space. A quote that is never closed is a letter, such as
/// an apostrophe; one in the middle of a word too.
fn words(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        at += 1;
        let closed = |quote: char| chars[at..].iter().position(|c| *c == quote);
        match c {
            '"' | '\'' if word.is_empty() && closed(c).is_some() => {
                let end = at + closed(c).unwrap_or_default();
                words.push(chars[at..end].iter().collect());
                at = end + 1;
            }
            '\\' => {
                word.extend(chars.get(at));
                at += 1;
            }
            c if c.is_whitespace() => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    // What ends a sentence is no part of a name.
    let ends = [',', ';', ':', '!', '?', ')', '，', '。', '；', '：', '！', '？', '）'];
    let trimmed = |word: String| word.trim_start_matches(['(', '（']).trim_end_matches(ends).to_owned();
    words
        .into_iter()
        .map(trimmed)
        .map(|w| w.strip_suffix('.').map_or(w.clone(), str::to_owned))
        .filter(|w| !w.is_empty())
        .collect()
}

/// One line for a person.
pub fn told(image: &Image) -> String {
    let size = image.pixels().map(|(width, height)| format!(", {width}×{height}")).unwrap_or_default();
    format!("attached: {} ({}{size})", image.source().unwrap_or("image"), image.media_type())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_as_they_are_typed_and_dragged() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        for name in ["a.png", "my cat.JPG", "猫.webp", "notes.txt"] {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        let found = |text: &str| -> Vec<String> {
            let named = named(&text.replace("DIR", &place), Some(folder.path()));
            named.iter().map(|n| n.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(found("what is in DIR/a.png?"), ["a.png"]);
        assert_eq!(found("'DIR/my cat.JPG' and \"DIR/猫.webp\""), ["my cat.JPG", "猫.webp"]);
        assert_eq!(found("DIR/my\\ cat.JPG: what's that, and isn't it DIR/a.png."), ["my cat.JPG", "a.png"]);
        assert_eq!(found("file://DIR/my%20cat.JPG file://localhostDIR/%E7%8C%AB.webp"), ["my cat.JPG", "猫.webp"]);
        assert_eq!(found("~/a.png 和 (DIR/猫.webp)。"), ["a.png", "猫.webp"]);
        assert_eq!(found("DIR/a.png DIR/a.png DIR/gone.png DIR/notes.txt don't"), ["a.png"]);
        assert!(found("").is_empty() && found("\\").is_empty() && found("%").is_empty());
    }
}
