//! Doors for the fuzz targets in `fuzz/`, into what is otherwise private. Not part of the interface.

use crate::converse::Talk;
use crate::frame::{self, Kind};

/// Bytes of output that the pretended job may have.
const OUTPUT: u64 = 1000;

/// Hears a worker out that says `bytes`, as far as that keeps the protocol.
pub fn worker_says(mut bytes: &[u8]) {
    let most = frame::most(OUTPUT);
    let mut talk = Talk::default();
    while let Ok(Some((kind, payload))) = futures::executor::block_on(frame::read(&mut bytes, most)) {
        assert!(payload.len() <= most, "a frame of {} bytes was read", payload.len());
        if kind == Kind::Call {
            let length = payload.len();
            let Ok(packet) = frame::unpack_request(payload) else { break };
            assert!(packet.head.len() <= frame::MOST_HEAD && packet.head.len() + packet.body.len() + 8 == length);
            let again = frame::unpack(frame::pack(packet.id, &packet.head, &packet.body));
            assert_eq!(again.ok(), Some(packet));
        } else if !matches!(talk.hear(kind, payload, OUTPUT), Ok(None)) {
            break;
        }
    }
    let printed = talk.printed(OUTPUT);
    assert!(printed.len() as u64 <= OUTPUT);
}
