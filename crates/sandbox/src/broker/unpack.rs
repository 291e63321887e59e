//! Answers that a server packed although it was asked not to. A small one can unpack into gigabytes, so what comes out
//! is bounded as it comes.

use super::{Refusal, short};
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::io::Read;

/// Layers of packing; nobody sends more in earnest.
const MOST_LAYERS: usize = 2;

/// The bytes as they were before `Content-Encoding`; `None` when they are more than `most`.
pub(super) fn unpack(coding: &str, body: Vec<u8>, most: usize) -> Result<Option<Vec<u8>>, Refusal> {
    let layers: Vec<String> = coding.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
    let layers: Vec<&str> = layers.iter().map(String::as_str).filter(|l| !matches!(*l, "" | "identity")).collect();
    if layers.len() > MOST_LAYERS {
        return Err(Refusal::wrong(format!("fetch: the answer is packed {} times", layers.len())));
    }
    let mut body = body;
    for layer in layers.iter().rev() {
        // An answer to HEAD names a coding and has no body.
        if body.is_empty() {
            break;
        }
        let outcome = match *layer {
            "gzip" | "x-gzip" => bounded(MultiGzDecoder::new(&body[..]), most),
            // By the standard with a zlib head; some servers leave it out.
            "deflate" => {
                bounded(ZlibDecoder::new(&body[..]), most).or_else(|_| bounded(DeflateDecoder::new(&body[..]), most))
            }
            other => {
                return Err(Refusal::wrong(format!(
                    "fetch: the server packed its answer as `{}` although it was asked not to; that cannot be unpacked here",
                    short(other)
                )));
            }
        };
        let outcome = outcome.map_err(|e| Refusal::wrong(format!("fetch: the answer's {layer} is damaged: {e}")))?;
        let Some(bytes) = outcome else { return Ok(None) };
        body = bytes;
    }
    Ok(Some(body))
}

fn bounded(reader: impl Read, most: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut out = Vec::new();
    reader.take(most as u64 + 1).read_to_end(&mut out)?;
    Ok((out.len() <= most).then_some(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        let text = "水 water".as_bytes();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(text).unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
        raw.write_all(text).unwrap();
        for (coding, packed) in [
            ("gzip", gzip(text)),
            ("X-GZIP", gzip(text)),
            ("gzip, gzip", gzip(&gzip(text))),
            ("identity", text.to_vec()),
            ("", text.to_vec()),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", raw.finish().unwrap()),
        ] {
            assert_eq!(unpack(coding, packed, 1000).unwrap().unwrap(), text, "{coding}");
        }
        assert_eq!(unpack("gzip", Vec::new(), 10).unwrap(), Some(Vec::new()));
    }

    #[test]
    fn a_bomb_is_stopped_and_what_cannot_be_unpacked_is_an_error() {
        let bomb = gzip(&vec![0; 50 << 20]);
        assert!(bomb.len() < 100_000);
        assert_eq!(unpack("gzip", bomb.clone(), 1 << 20).unwrap(), None);
        assert_eq!(unpack("gzip, gzip", gzip(&bomb), 1 << 20).unwrap(), None);
        for (coding, body) in [
            ("br", b"x".to_vec()),
            ("gzip", b"not gzip".to_vec()),
            ("gzip, gzip, gzip", gzip(b"x")),
            ("gzip", gzip(b"half of this")[..12].to_vec()),
        ] {
            assert!(unpack(coding, body, 1000).unwrap_err().message.starts_with("fetch:"), "{coding}");
        }
    }
}
