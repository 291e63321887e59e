//! Frames between the broker (parent) and a worker: length (u32, little endian), kind (one byte), payload.

use jarvis_protocol::{ExitClass, Fixed};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::check::Form;
use crate::isolate::Missing;

/// Room for headers and messages beside the output itself.
const SLACK: usize = 64 << 10;

/// The longest head of a request, bytes; content belongs into the body.
pub(crate) const MOST_HEAD: usize = 64 << 10;

/// The largest frame a worker may send for this limit of output, bytes.
pub(crate) fn most(output_bytes: u64) -> usize {
    usize::try_from(output_bytes).unwrap_or(usize::MAX).saturating_add(SLACK)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Worker: isolated and warm; JSON [`Ready`].
    Ready = 1,
    /// Parent: JSON [`Job`].
    Job = 2,
    /// Worker: printed text.
    Print = 3,
    /// Worker: a [`Packet`] that asks for something only the broker may do.
    Call = 4,
    /// Parent: a [`Packet`] that answers the one of the same id.
    Reply = 5,
    /// Worker: the result as JSON text. Comes before `Done`.
    Result = 6,
    /// Worker: JSON [`Done`]; the last frame.
    Done = 7,
    /// Both: a way out to try, by its name; how it failed, or nothing when it succeeded.
    Attempt = 8,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        [Kind::Ready, Kind::Job, Kind::Print, Kind::Call, Kind::Reply, Kind::Result, Kind::Done, Kind::Attempt]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub layers: Vec<String>,
    /// Set when a layer could not be set up; no job must be sent then.
    pub missing: Option<Missing>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub javascript: String,
    pub form: Form,
    pub positional: Vec<String>,
    /// JSON text, so that its nesting is its own.
    pub args: String,
    pub memory_mb: u64,
    pub timeout_ms: u64,
    pub output_bytes: u64,
    pub fixed: Option<Fixed>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub exit: ExitClass,
    pub fault: Option<Fault>,
    pub cpu_us: u64,
    pub peak_memory_kb: u64,
}

/// An error as the engine saw it; lines are those of the stripped code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub name: String,
    pub message: String,
    pub stack: String,
}

/// A request or an answer: JSON, and bytes that need no coding.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Packet {
    pub id: u32,
    pub head: String,
    pub body: Vec<u8>,
}

/// Id and length of the head (u32, little endian each), head, body.
pub(crate) fn pack(id: u32, head: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + head.len() + body.len());
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&(head.len() as u32).to_le_bytes());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
    out
}

/// From a worker, which is not trusted.
pub(crate) fn unpack_request(payload: Vec<u8>) -> io::Result<Packet> {
    let packet = unpack(payload)?;
    if packet.head.len() > MOST_HEAD {
        return Err(broken(format!("a request with a head of {} bytes", packet.head.len())));
    }
    Ok(packet)
}

pub(crate) fn unpack(mut payload: Vec<u8>) -> io::Result<Packet> {
    let (Some(id), Some(length)) = (word(&payload, 0), word(&payload, 4)) else {
        return Err(broken("a packet without a head"));
    };
    let end = 8usize.saturating_add(length as usize);
    let head = payload.get(8..end).and_then(|head| std::str::from_utf8(head).ok());
    let head = head.ok_or_else(|| broken("a packet with a broken head"))?.to_owned();
    payload.drain(..end);
    Ok(Packet { id, head, body: payload })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

pub(crate) fn encode(kind: Kind, payload: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(payload.len() + 1).map_err(|_| io::Error::other("a frame of more than 4 GiB"))?;
    let mut out = Vec::with_capacity(payload.len() + 5);
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind as u8);
    out.extend_from_slice(payload);
    Ok(out)
}

pub(crate) fn encode_json<T: Serialize>(kind: Kind, value: &T) -> io::Result<Vec<u8>> {
    encode(kind, &serde_json::to_vec(value)?)
}

fn header(bytes: [u8; 5], most: usize) -> io::Result<(Kind, usize)> {
    let [a, b, c, d, kind] = bytes;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let kind = Kind::from_byte(kind).ok_or_else(|| broken(format!("a frame of unknown kind {kind}")))?;
    match length.checked_sub(1) {
        Some(rest) if rest <= most => Ok((kind, rest)),
        _ => Err(broken(format!("a frame of {length} bytes where {most} are allowed"))),
    }
}

pub(crate) fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// The parent's side. An end of file between frames is `None`.
pub(crate) async fn read<R: AsyncRead + Unpin>(from: &mut R, most: usize) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let mut head = [0u8; 5];
    let mut have = 0;
    while have < head.len() {
        match from.read(&mut head[have..]).await? {
            0 if have == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => have += n,
        }
    }
    let (kind, length) = header(head, most)?;
    // Grows with what really comes, not with what the header claims.
    let mut payload = Vec::with_capacity(length.min(SLACK));
    from.take(length as u64).read_to_end(&mut payload).await?;
    if payload.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((kind, payload)))
}

/// The worker's side; blocking. The parent is trusted, so there is no maximum but the format's.
pub(crate) fn read_blocking(from: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0u8; 5];
    from.read_exact(&mut head)?;
    let (kind, length) = header(head, u32::MAX as usize)?;
    let mut payload = vec![0; length];
    from.read_exact(&mut payload)?;
    Ok((kind, payload))
}

pub(crate) fn write_blocking(to: &mut impl Write, kind: Kind, payload: &[u8]) -> io::Result<()> {
    to.write_all(&encode(kind, payload)?)
}
