//! What a service manager is told: that the server is ready, and that it stops. `Type=notify` of systemd waits for it.

use std::io;
use std::os::unix::net::UnixDatagram;

/// The variable with the address of the manager's socket.
const SOCKET: &str = "NOTIFY_SOCKET";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    Ready,
    Stopping,
}

impl ServiceState {
    fn line(self) -> &'static [u8] {
        match self {
            Self::Ready => b"READY=1",
            Self::Stopping => b"STOPPING=1",
        }
    }
}

/// Tells the service manager that started this process. Without a manager there is no variable and nothing to do.
pub fn tell(state: ServiceState) {
    // A failure is only logged: the server works without its manager.
    let Some(socket) = std::env::var_os(SOCKET).filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(socket.as_encoded_bytes(), state) {
        tracing::warn!(%error, "cannot tell the service manager: {state:?}");
    }
}

fn send(socket: &[u8], state: ServiceState) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    // systemd writes `@` for the zero byte that begins the name of an abstract socket.
    match socket.strip_prefix(b"@") {
        Some(name) => sender.send_to_addr(state.line(), &abstract_address(name)?)?,
        None => {
            use std::os::unix::ffi::OsStrExt;
            sender.send_to(state.line(), std::ffi::OsStr::from_bytes(socket))?
        }
    };
    Ok(())
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    std::os::unix::net::SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_name: &[u8]) -> io::Result<std::os::unix::net::SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "abstract sockets exist on Linux only"))
}
