//! A file server that knows ranges and can be told to break off or to be slow, and wheels with one large member.

use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the server answers; may be changed while it runs.
#[derive(Clone, Default)]
pub struct Behaviour {
    pub data: Vec<u8>,
    /// Bytes of the body after which the connection is closed.
    pub break_after: Option<usize>,
    /// Pause after each 64 KiB.
    pub pause: Option<Duration>,
    pub no_ranges: bool,
    pub status: Option<&'static str>,
}

pub struct FileServer {
    pub url: String,
    pub behaviour: Arc<Mutex<Behaviour>>,
    /// The `Range` header of each request, or `-`.
    pub ranges: Arc<Mutex<Vec<String>>>,
}

impl FileServer {
    pub fn start(behaviour: Behaviour) -> FileServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let behaviour = Arc::new(Mutex::new(behaviour));
        let ranges = Arc::new(Mutex::new(Vec::new()));
        let (b, r) = (behaviour.clone(), ranges.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (b, r) = (b.clone(), r.clone());
                // A client that goes away in the middle is part of the tests.
                std::thread::spawn(move || answer(stream, &b, &r).ok());
            }
        });
        FileServer { url, behaviour, ranges }
    }

    pub fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.behaviour.lock().unwrap());
    }
}

fn answer(mut stream: TcpStream, behaviour: &Mutex<Behaviour>, ranges: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut range = None;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            range = Some(value.trim().to_owned());
        }
    }
    ranges.lock().unwrap().push(range.clone().unwrap_or_else(|| "-".to_owned()));
    let b = behaviour.lock().unwrap().clone();
    if let Some(status) = b.status {
        return write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let start = range.filter(|_| !b.no_ranges).and_then(|r| r.trim_end_matches('-').parse::<usize>().ok());
    let total = b.data.len();
    match start {
        Some(start) => write!(
            stream,
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{}/{total}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            total - 1,
            total - start
        )?,
        None => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {total}\r\nConnection: close\r\n\r\n")?,
    }
    let body = &b.data[start.unwrap_or(0)..];
    let body = &body[..b.break_after.unwrap_or(body.len()).min(body.len())];
    for chunk in body.chunks(64 << 10) {
        stream.write_all(chunk)?;
        if let Some(pause) = b.pause {
            std::thread::sleep(pause);
        }
    }
    stream.flush()
}

/// Bytes that do not repeat.
pub fn data(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

pub fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A wheel as a data package has it: a little Python that must never run, and one large file.
pub fn wheel(folder: &Path, package: &str, version: &str, data: &[u8]) -> std::path::PathBuf {
    let module = package.replace('-', "_");
    let path = folder.join(format!("{module}-{version}-py3-none-any.whl"));
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    let info = format!("{module}-{version}.dist-info");
    let members: [(String, Vec<u8>); 5] = [
        (format!("{module}/__init__.py"), b"raise SystemExit('imported')\n".to_vec()),
        (format!("{module}/data/part.bin"), data.to_vec()),
        (
            format!("{info}/METADATA"),
            format!("Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n").into_bytes(),
        ),
        (
            format!("{info}/WHEEL"),
            b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_vec(),
        ),
        (format!("{info}/RECORD"), Vec::new()),
    ];
    for (name, bytes) in members {
        zip.start_file(name, options).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    zip.finish().unwrap();
    path
}
