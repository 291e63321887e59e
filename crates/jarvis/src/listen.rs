//! Where other programs connect.

use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be taken; the system may have a lower bound of its own. Past it a client is only heard when it
/// tries again a second later, and hundreds that come in one moment are usual here.
const WAITING: u32 = 4096;

pub fn listen(at: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that is started again at once finds its port.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(WAITING)
}
