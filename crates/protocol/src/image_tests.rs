//! Images by their bytes.

use super::*;

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes
}

#[test]
fn the_bytes_tell_kind_and_pixels() {
    let jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc4\x00\x03a\xff\xc2\x00\x0b\x08\x00\x14\x01\x2c\x03";
    let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x40\x01\xf0\x00";
    let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x3f\x41\x0e\x00";
    let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x8f\x01\x00\x2b\x01\x00";
    let square = png(640, 480);
    let table = [
        (square.as_slice(), "image/png", Some((640, 480))),
        (b"GIF89a\x0a\x00\x0b\x01\x00\x00\x00", "image/gif", Some((10, 267))),
        (jpeg, "image/jpeg", Some((300, 20))),
        (lossy, "image/webp", Some((320, 240))),
        (lossless, "image/webp", Some((320, 58))),
        (extended, "image/webp", Some((400, 300))),
    ];
    for (bytes, media_type, pixels) in table {
        let image = Image::from_bytes(bytes, None).unwrap();
        assert_eq!((image.media_type(), image.pixels()), (media_type, pixels));
        assert_eq!(Image::from_base64(image.data(), None).unwrap(), image);
        for cut in 0..bytes.len() {
            // Whatever is missing: an answer, never a panic.
            let _ = Image::from_bytes(&bytes[..cut], None);
        }
    }
}

#[test]
fn a_file_that_only_begins_as_an_image_is_none() {
    for (bytes, kind) in [
        (b"\xff\xd8\xff\xe0\x40\x00".as_slice(), "JPEG"),
        (b"\xff\xd8\xff\xe0 and then words, many of them", "JPEG"),
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"GIF89a\x01", "GIF"),
        (b"RIFF\0\0\0\0WEBPnonsense", "WebP"),
        // No picture has no width.
        (&png(0, 5), "PNG"),
    ] {
        let error = Image::from_bytes(bytes, None).unwrap_err();
        assert_eq!(error, ImageError::Damaged(kind));
        assert!(error.to_string().contains("damaged or cut off"), "{error}");
    }
    assert!(Image::from_bytes(&png(MAX_IMAGE_SIDE, 1), None).is_ok());
    let wide = Image::from_bytes(&png(3, MAX_IMAGE_SIDE + 1), None).unwrap_err().to_string();
    assert!(wide.contains("3×8001") && wide.contains("at most 8000×8000"), "{wide}");
}

#[test]
fn an_image_of_a_kept_session_is_read_whatever_is_taken_now() {
    for bytes in [png(9000, 1), b"GIF89a".to_vec()] {
        let kept = serde_json::json!({"media_type": if bytes[0] == b'G' { "image/gif" } else { "image/png" }, "data": STANDARD.encode(&bytes)});
        let image: Image = serde_json::from_value(kept.clone()).unwrap();
        assert_eq!(serde_json::to_value(&image).unwrap(), kept);
    }
}

#[test]
fn what_is_no_image_or_too_large_is_refused_with_the_reason() {
    let text = |bytes: &[u8]| Image::from_bytes(bytes, Some("a.png")).unwrap_err().to_string();
    assert!(text(b"").contains("empty"));
    for other in ["<svg/>", "%PDF-1.7", "BM......", "\u{89}PNG", "RIFF....WAVE", "图"] {
        assert!(text(other.as_bytes()).contains("PNG, JPEG, GIF or WebP"), "{other}");
    }
    let mut large = png(1, 1);
    large.resize(MAX_IMAGE_BYTES, 0);
    let fits = Image::from_bytes(&large, None).unwrap();
    assert_eq!(Image::from_base64(fits.data(), None).unwrap(), fits);
    large.push(0);
    assert!(text(&large).contains("6 MB") && text(&large).contains("5 MB"), "{}", text(&large));
    let long = "A".repeat(10 << 20);
    assert!(matches!(Image::from_base64(&long, None), Err(ImageError::TooLarge { .. })));
    assert!(matches!(Image::from_base64("iVBO*", None), Err(ImageError::Base64(_))));
}

#[test]
fn an_image_is_written_and_read_with_its_label_checked() {
    let image = Image::from_bytes(&png(2, 3), Some("图.png")).unwrap();
    let json = serde_json::to_value(&image).unwrap();
    assert_eq!(json["media_type"], "image/png");
    assert_eq!(json["source"], "图.png");
    assert_eq!(serde_json::from_value::<Image>(json.clone()).unwrap(), image);
    let mut wrong = json.clone();
    wrong["media_type"] = "image/gif".into();
    let error = serde_json::from_value::<Image>(wrong).unwrap_err().to_string();
    assert!(error.contains("image/gif") && error.contains("image/png"), "{error}");
    let mut cut = json;
    cut["data"] = "AAAA".into();
    assert!(serde_json::from_value::<Image>(cut).is_err());
    assert!(!format!("{image:?}").contains(image.data()), "a log is not filled with base64");
}
