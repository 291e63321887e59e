//! An image in a message: its kind is read from its bytes, its size is bounded, and it is kept as the base64 that every
//! provider is sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The largest image that is taken, in bytes of the file and in pixels of each side: what every provider takes. Anthropic's
/// limits are the lowest (5 MB and 8000 × 8000 pixels, as its documentation of vision says).
pub const MAX_IMAGE_BYTES: usize = 5 << 20;
pub const MAX_IMAGE_SIDE: u32 = 8000;

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

impl Kind {
    fn media_type(self) -> &'static str {
        match self {
            Kind::Png => "image/png",
            Kind::Jpeg => "image/jpeg",
            Kind::Gif => "image/gif",
            Kind::Webp => "image/webp",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Png => "PNG",
            Kind::Jpeg => "JPEG",
            Kind::Gif => "GIF",
            Kind::Webp => "WebP",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("the image is empty")]
    Empty,
    #[error("this is no PNG, JPEG, GIF or WebP image, which is told by its first bytes; convert it to one of them")]
    Kind,
    #[error("the image has {} MB, at most {} MB are taken; make it smaller", bytes.div_ceil(1 << 20), MAX_IMAGE_BYTES >> 20)]
    TooLarge { bytes: usize },
    #[error("it begins as {0} does, but its width and height cannot be read: it is damaged or cut off; save it anew")]
    Damaged(&'static str),
    #[error(
        "the image has {width}×{height} pixels, at most {MAX_IMAGE_SIDE}×{MAX_IMAGE_SIDE} are taken; make it smaller"
    )]
    TooWide { width: u32, height: u32 },
    #[error("the image's data is no base64: {0}")]
    Base64(String),
    #[error("the image is said to be {said} and is {is}")]
    Mislabelled { said: String, is: &'static str },
}

impl Image {
    /// `source` is where it came from, for a person: a file's name, a tool.
    pub fn from_bytes(bytes: &[u8], source: Option<&str>) -> Result<Self, ImageError> {
        let kind = check(bytes)?;
        let (width, height) = pixels(bytes).ok_or_else(|| ImageError::Damaged(kind.name()))?;
        if width.max(height) > MAX_IMAGE_SIDE {
            return Err(ImageError::TooWide { width, height });
        }
        let data = STANDARD.encode(bytes).into();
        Ok(Self { kind, data, source: source.map(Arc::from), pixels: Some((width, height)) })
    }

    /// As tools and MCP servers hand images over.
    pub fn from_base64(data: &str, source: Option<&str>) -> Result<Self, ImageError> {
        // Four characters carry three bytes.
        if data.len() / 4 * 3 > MAX_IMAGE_BYTES + 3 {
            return Err(ImageError::TooLarge { bytes: data.len() / 4 * 3 });
        }
        Self::from_bytes(&decoded(data)?, source)
    }

    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub fn media_type(&self) -> &'static str {
        self.kind.media_type()
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
        let bytes = decoded(&written.data)?;
        let kind = kind(&bytes)?;
        if kind.media_type() != written.media_type {
            // Providers refuse an image whose label is wrong.
            return Err(ImageError::Mislabelled { said: written.media_type, is: kind.media_type() });
        }
        // A kept session stays readable, whatever was taken when it was written.
        Ok(Self { kind, pixels: pixels(&bytes), data: written.data, source: written.source })
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
    kind(bytes)
}

fn decoded(data: &str) -> Result<Vec<u8>, ImageError> {
    STANDARD.decode(data.trim()).map_err(|e| ImageError::Base64(e.to_string()))
}

fn kind(bytes: &[u8]) -> Result<Kind, ImageError> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Ok(Kind::Png),
        [0xFF, 0xD8, 0xFF, ..] => Ok(Kind::Jpeg),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Ok(Kind::Gif),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(Kind::Webp),
        _ => Err(ImageError::Kind),
    }
}

/// Width and height from the file's head; of nothing that has no picture.
fn pixels(bytes: &[u8]) -> Option<(u32, u32)> {
    let size = imagesize::blob_size(bytes).ok()?;
    let side = |pixels: usize| u32::try_from(pixels).ok().filter(|pixels| *pixels > 0);
    Some((side(size.width)?, side(size.height)?))
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
