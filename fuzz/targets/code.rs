//! Code that is registered: parsed, checked, stripped of its types. An error names a line that is there.
#![no_main]

use jarvis_protocol::Runtime;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match jarvis_sandbox::check(text, Runtime::Typescript) {
        Ok(checked) => assert!(!checked.javascript.is_empty()),
        Err(error) => {
            let lines = text.matches('\n').count() + 1;
            assert!(error.line.is_none_or(|line| (1..=lines).contains(&(line as usize))), "{error:?}");
        }
    }
});
