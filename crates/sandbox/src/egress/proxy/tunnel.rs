//! `CONNECT`: bytes pass unread, but for the first words of TLS. Those must name the host that the tunnel was asked for,
//! so that a granted host is no front for another one behind the same address. What is asked inside the encrypted stream
//! (a `Host` header, the inner name of ECH) cannot be seen here; the host that is granted answers for it.

use super::answer::Problem;
use super::{Shared, Stream, Watch, Way};
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use url::Host;

const PIECE: usize = 16 << 10;

/// The longest ClientHello that is waited for, bytes.
const MOST_HELLO: usize = 32 << 10;

/// TLS records begin with the type of what they hold; 22 is a handshake.
const HANDSHAKE: u8 = 22;

/// A fatal alert `unrecognized_name`, as a TLS server would send it.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

enum End {
    /// Whoever sends is done.
    Closed,
    Broken,
    /// TLS for another host.
    Fronted,
}

impl Shared {
    pub(super) async fn tunnel(
        &self,
        client: &mut Box<dyn Stream>,
        rest: Vec<u8>,
        host: &Host<String>,
        port: u16,
    ) -> Result<(), Problem> {
        let tally = self.tally.host(&Self::place(host, port));
        self.policy.check_tunnel(host, port).inspect_err(|_| tally.denied())?;
        let mut server = self.connect(host, port, &tally).await?;
        let established = client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await;
        established.map_err(|_| Problem::late())?;
        let watch = self.watch(&tally);
        let (mut client_in, mut client_out) = tokio::io::split(client);
        let (mut server_in, mut server_out) = server.split();
        let fronted = {
            let out = async {
                match first_words(&mut client_in, &mut server_out, rest, host, &watch).await {
                    Ok(()) => pass(&mut client_in, &mut server_out, &watch, Way::Out).await,
                    Err(end) => end,
                }
            };
            let back = pass(&mut server_in, &mut client_out, &watch, Way::In);
            let (mut out, mut back) = (std::pin::pin!(out), std::pin::pin!(back));
            let (mut sending, mut receiving) = (true, true);
            loop {
                // A side that is done has said so to the other; the other may still have something to say.
                tokio::select! {
                    end = &mut out, if sending => match end {
                        End::Closed => sending = false,
                        End::Broken => break false,
                        End::Fronted => break true,
                    },
                    end = &mut back, if receiving => match end {
                        End::Closed => receiving = false,
                        End::Broken | End::Fronted => break false,
                    },
                    () = watch.idle() => break false,
                }
                if !sending && !receiving {
                    break false;
                }
            }
        };
        if fronted {
            tally.denied();
            // The client may be gone; the host never heard of it.
            let _ = client_out.write_all(&ALERT).await;
            let _ = client_out.shutdown().await;
        }
        Err(Problem::late())
    }
}

/// Holds back what the client says first until it is clear that it is meant for this host.
async fn first_words<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    from: &mut R,
    to: &mut W,
    mut words: Vec<u8>,
    host: &Host<String>,
    watch: &Watch<'_>,
) -> Result<(), End> {
    let mut acceptor = Acceptor::default();
    let mut read = 0;
    loop {
        if words.first().is_some_and(|first| *first != HANDSHAKE) {
            break;
        }
        while read < words.len() {
            match acceptor.read_tls(&mut &words[read..]) {
                Ok(n) if n > 0 => read += n,
                _ => return Err(End::Fronted),
            }
        }
        match acceptor.accept() {
            Ok(Some(hello)) if is_for(host, hello.client_hello().server_name()) => break,
            // For another host, or no hello at all.
            Ok(Some(_)) | Err(_) => return Err(End::Fronted),
            Ok(None) => {}
        }
        if words.len() > MOST_HELLO {
            return Err(End::Fronted);
        }
        let mut piece = vec![0; PIECE];
        match from.read(&mut piece).await {
            // The rest of a hello never came: nothing is passed on.
            Ok(0) if words.is_empty() => break,
            Ok(0) | Err(_) => return Err(End::Broken),
            Ok(n) => words.extend_from_slice(&piece[..n]),
        }
    }
    if !watch.moved(Way::Out, words.len()) {
        return Err(End::Broken);
    }
    to.write_all(&words).await.map_err(|_| End::Broken)
}

/// A name is asked for by name; an address has none to ask for.
fn is_for(host: &Host<String>, asked: Option<&str>) -> bool {
    match (host, asked) {
        (Host::Domain(name), Some(asked)) => asked.strip_suffix('.').unwrap_or(asked).eq_ignore_ascii_case(name),
        (Host::Domain(_), None) => false,
        (Host::Ipv4(_) | Host::Ipv6(_), asked) => asked.is_none(),
    }
}

async fn pass<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    from: &mut R,
    to: &mut W,
    watch: &Watch<'_>,
    way: Way,
) -> End {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece).await {
            Ok(0) => {
                // The other side may have gone first.
                let _ = to.shutdown().await;
                return End::Closed;
            }
            Ok(n) if watch.moved(way, n) => {
                if to.write_all(&piece[..n]).await.is_err() {
                    return End::Broken;
                }
            }
            Ok(_) | Err(_) => return End::Broken,
        }
    }
}
