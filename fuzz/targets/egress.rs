//! Patterns of hosts in grants.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    if jarvis_sandbox::check_host(text).is_ok() {
        // A person reads it in a question.
        assert!(!text.trim().chars().any(char::is_control), "{text:?}");
        assert!(!text.contains('@'), "a user name: {text:?}");
    }
});
