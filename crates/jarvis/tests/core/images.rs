//! Images: named with --image, or by path in a conversation.

use crate::common::Home;
use crate::common::provider::{Provider, Reply};
use serde_json::{Value, json};

/// One pixel.
const PNG: &str = "89504e470d0a1a0a0000000d4948445200000001000000010806000000\
                   1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082";

fn png() -> Vec<u8> {
    let digits: String = PNG.chars().filter(|c| !c.is_whitespace()).collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn home_of(script: Vec<Reply>) -> (Home, Provider) {
    let provider = Provider::start(script);
    let home = Home::new().config(&provider.config());
    std::fs::write(home.file("cat.png"), png()).unwrap();
    (home, provider)
}

/// The parts of the last message of request `n` that are images.
fn images(provider: &Provider, n: usize) -> Vec<Value> {
    let asked = provider.requests.lock().unwrap();
    let messages = asked[n]["messages"].as_array().unwrap();
    let parts = messages.iter().filter_map(|m| m["content"].as_array()).flatten();
    parts.filter(|part| part["type"] == "image_url").cloned().collect()
}

#[test]
fn an_image_is_sent_kept_gone_on_with_and_exported() {
    let (home, provider) = home_of(vec![Reply::Text("A cat."), Reply::Text("Grey.")]);
    std::fs::copy(home.file("cat.png"), home.file("猫 2.png")).unwrap();
    assert_eq!(home.run(&["--image", "cat.png", "--image", "猫 2.png", "what is this?"]).ok().out, "A cat.\n");
    let sent = images(&provider, 0);
    assert_eq!(sent.len(), 2);
    assert!(sent[0]["image_url"]["url"].as_str().unwrap().starts_with("data:image/png;base64,iVBOR"), "{}", sent[0]);
    let _ = home.run(&["--continue", "which colour?"]).ok();
    assert_eq!(images(&provider, 1), sent, "it is still seen");
    let exported = home.run(&["session", "export", "latest"]).ok().out;
    assert!(exported.contains("[image: cat.png, image/png, 1×1, 1 KB]") && exported.contains("猫 2.png"), "{exported}");
    let whole = home.run(&["session", "export", "latest", "--format", "json"]).ok().json();
    assert_eq!(whole["messages"][0]["message"]["images"].as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_shown_is_told_before_anything_is_sent() {
    let (home, provider) = home_of(vec![]);
    home.write("words.png", "no image at all");
    std::fs::File::create(home.file("huge.png")).unwrap().set_len(30 << 20).unwrap();
    std::fs::write(home.file("cut.png"), &png()[..12]).unwrap();
    std::fs::write(home.file("wide.gif"), b"GIF89a\x28\x23\x01\x00 and more").unwrap();
    for (path, says) in [
        ("gone.png", "gone.png cannot be read"),
        ("words.png", "no PNG, JPEG, GIF or WebP"),
        (".", "is no file"),
        ("/dev/zero", "is no file"),
        ("huge.png", "at most 5 MB"),
        ("cut.png", "damaged or cut off"),
        ("wide.gif", "9000×1 pixels, at most 8000×8000"),
    ] {
        let _ = home.run(&["--image", path, "what is this?"]).failed(2, &[says, "hint:"]);
    }
    let many: Vec<&str> = std::iter::repeat_n(["--image", "cat.png"], 21).flatten().collect();
    let _ = home.run(&[&many[..], &["what?"]].concat()).failed(1, &["21 images", "at most 20"]);
    let blind = provider.config().replace("retries", "images = false\nretries");
    let home = home.config(&blind);
    let ran = home
        .run(&["--json", "--image", "cat.png", "what is this?"])
        .failed(2, &["fake/m looks at no images", "--model"]);
    assert_eq!(ran.events().last().unwrap()["type"], "turn.failed");
    assert!(provider.requests.lock().unwrap().is_empty());
    assert!(home.run(&["session", "list", "--all", "--json"]).ok().json()["sessions"].as_array().unwrap().is_empty());
}

#[test]
fn in_a_conversation_a_path_is_attached_and_told() {
    let (home, provider) = home_of((0..6).map(|_| Reply::Text("seen")).collect());
    std::fs::create_dir(home.file("my pictures")).unwrap();
    std::fs::copy(home.file("cat.png"), home.file("my pictures/猫.png")).unwrap();
    let place = home.path().display();
    let input = format!(
        "what is in '{place}/my pictures/猫.png'?\n{place}/my\\ pictures/猫.png and this\nis cat.png nice?\n{place}/gone.png\n"
    );
    let ran = home.run_with_input(&["chat"], &input).ok();
    assert_eq!(ran.err.matches("attached: ").count(), 3, "{}", ran.err);
    assert!(ran.err.contains("attached: 猫.png (image/png, 1×1)"), "{}", ran.err);
    assert_eq!([0, 1, 2, 3].map(|n| images(&provider, n).len()), [1, 2, 3, 3]);
    // What is dragged to a model that sees nothing is an error; what was shown before is a word for it.
    let config = provider.config();
    let section = config.split_once("[providers.fake]").unwrap().1;
    home.write("config.toml", &format!("{config}[providers.blind]\nmodel = \"b\"\nimages = false{section}"));
    let input = format!("/model blind/b\nand {place}/cat.png?\nwhat did you see?\nis cat.png nice?\n");
    let ran = home.run_with_input(&["chat", "--continue"], &input).ok();
    assert!(ran.err.contains("blind/b looks at no images") && ran.out == "seen\nseen\n", "{}\n{}", ran.out, ran.err);
    assert_eq!((images(&provider, 4).len(), provider.requests.lock().unwrap().len()), (0, 6));
    let told = provider.requests.lock().unwrap()[4]["messages"].to_string();
    assert!(told.contains("[an image was here, 猫.png, which you cannot see]"), "{told}");
    assert_eq!(json!(ran.code), 0);
}
