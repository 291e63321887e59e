//! Definitions of capabilities: what is read is written and read again as the same.
#![no_main]

use jarvis_protocol::Capability;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(capability) = serde_json::from_slice::<Capability>(data) else { return };
    let text = serde_json::to_string(&capability).expect("a definition can be written");
    let again: Capability = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).expect("it can be written again"), text);
    let name = capability.name.as_str();
    assert!(
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
        "{name}"
    );
});
