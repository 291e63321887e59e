//! An image in a message: its kind is read from its bytes, its size is bounded, and it is kept as the base64 that every
//! provider is sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The largest image that is taken, in bytes of the file. Providers' own limits are lower (5 to 20 MB).
pub const MAX_IMAGE_BYTES: usize = 20 << 20;

/// Cheap to clone: a conversation is copied for every request, its images are not.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Image {
    kind: Kind,
    data: Arc<str>,
    source: Option<Arc<str>>,
    pixels: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Png,
    Jpeg,
    Gif,
    Webp,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("the image is empty")]
    Empty,
    #[error("this is no PNG, JPEG, GIF or WebP image, which is told by its first bytes; convert it to one of them")]
    Kind,
    #[error("the image has {} MB, at most {} MB are taken; make it smaller", bytes.div_ceil(1 << 20), MAX_IMAGE_BYTES >> 20)]
    TooLarge { bytes: usize },
    #[error("the image's data is no base64: {0}")]
    Base64(String),
    #[error("the image is said to be {said} and is {is}")]
    Mislabelled { said: String, is: &'static str },
}

impl Image {
    /// `source` is where it came from, for a person: a file's name, a tool.
    pub fn from_bytes(bytes: &[u8], source: Option<&str>) -> Result<Self, ImageError> {
        let kind = check(bytes)?;
        let data = STANDARD.encode(bytes).into();
        Ok(Self { kind, data, source: source.map(Arc::from), pixels: pixels(kind, bytes) })
    }

    /// As tools and MCP servers hand images over.
    pub fn from_base64(data: &str, source: Option<&str>) -> Result<Self, ImageError> {
        // Four characters carry three bytes.
        if data.len() / 4 * 3 > MAX_IMAGE_BYTES + 3 {
            return Err(ImageError::TooLarge { bytes: data.len() / 4 * 3 });
        }
        let bytes = STANDARD.decode(data.trim()).map_err(|e| ImageError::Base64(e.to_string()))?;
        Self::from_bytes(&bytes, source)
    }

    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub fn media_type(&self) -> &'static str {
        match self.kind {
            Kind::Png => "image/png",
            Kind::Jpeg => "image/jpeg",
            Kind::Gif => "image/gif",
            Kind::Webp => "image/webp",
        }
    }

    /// Base64, with padding and without line breaks.
    pub fn data(&self) -> &str {
        &self.data
    }

    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Width and height, where the file says them.
    pub fn pixels(&self) -> Option<(u32, u32)> {
        self.pixels
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Megabytes of base64 help nobody who reads a log.
        f.debug_struct("Image")
            .field("media_type", &self.media_type())
            .field("base64", &self.data.len())
            .field("source", &self.source)
            .field("pixels", &self.pixels)
            .finish()
    }
}

/// The JSON form.
#[derive(Serialize, Deserialize)]
struct Written {
    media_type: String,
    data: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Arc<str>>,
}

impl TryFrom<Written> for Image {
    type Error = ImageError;

    fn try_from(written: Written) -> Result<Self, ImageError> {
        let image = Self::from_base64(&written.data, written.source.as_deref())?;
        if image.media_type() != written.media_type {
            // Providers refuse an image whose label is wrong.
            return Err(ImageError::Mislabelled { said: written.media_type, is: image.media_type() });
        }
        Ok(image)
    }
}

impl From<Image> for Written {
    fn from(image: Image) -> Self {
        Self { media_type: image.media_type().to_owned(), data: image.data, source: image.source }
    }
}

fn check(bytes: &[u8]) -> Result<Kind, ImageError> {
    if bytes.is_empty() {
        return Err(ImageError::Empty);
    }
    if bytes.len() > MAX_IMAGE_BYTES {
        return Err(ImageError::TooLarge { bytes: bytes.len() });
    }
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Ok(Kind::Png),
        [0xFF, 0xD8, 0xFF, ..] => Ok(Kind::Jpeg),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Ok(Kind::Gif),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(Kind::Webp),
        _ => Err(ImageError::Kind),
    }
}

/// Width and height from the file's head; `None` where it is cut or odd, which is the provider's to refuse.
fn pixels(kind: Kind, bytes: &[u8]) -> Option<(u32, u32)> {
    // `count` bytes from `at` as a number, the least significant first.
    let little = |at: usize, count: usize| {
        bytes.get(at..at + count).map(|b| b.iter().rev().fold(0u32, |n, b| n << 8 | u32::from(*b)))
    };
    match kind {
        Kind::Png => Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?)),
        Kind::Gif => Some((little(6, 2)?, little(8, 2)?)),
        Kind::Jpeg => jpeg_pixels(bytes),
        Kind::Webp => match bytes.get(12..16)? {
            b"VP8 " => Some((little(26, 2)? & 0x3FFF, little(28, 2)? & 0x3FFF)),
            b"VP8L" => {
                let bits = little(21, 4)?;
                Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
            }
            b"VP8X" => Some((little(24, 3)? + 1, little(27, 3)? + 1)),
            _ => None,
        },
    }
}

fn big(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    bytes.get(at..at + count).map(|b| b.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)))
}

/// Of the frame header, which stands behind segments of any number and length.
fn jpeg_pixels(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        while *bytes.get(at)? == 0xFF {
            at += 1;
        }
        match bytes[at] {
            // The frame headers; C4, C8 and CC among them are tables.
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                return Some((big(bytes, at + 6, 2)?, big(bytes, at + 4, 2)?));
            }
            0x01 | 0xD0..=0xD8 => at += 1,
            // The picture begins, or ends, and no header came.
            0xD9 | 0xDA => return None,
            _ => at += 1 + big(bytes, at + 1, 2)? as usize,
        }
    }
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
