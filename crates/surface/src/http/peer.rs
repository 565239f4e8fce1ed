//! Which user of this machine is at the other end of a connection. The kernel is asked for the owner of the peer's
//! socket: by sock_diag, which looks up one pair of addresses, or, on systems without it, by the lists in `/proc/net`.

use std::net::SocketAddr;

/// The owner of the socket at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The user this server runs as.
    Own,
    Other,
    /// No live socket of this machine has these addresses, or its user is unknown.
    Unknown,
    /// This system does not tell owners.
    #[cfg_attr(target_os = "linux", allow(dead_code, reason = "Linux always tells"))]
    Untold,
}

/// The owner of the socket connected from `peer` to `local`, the address on this end.
pub(super) fn owner(peer: SocketAddr, local: SocketAddr) -> Owner {
    #[cfg(target_os = "linux")]
    return linux::owner(plain(peer), plain(local));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (peer, local);
        Owner::Untold
    }
}

/// An IPv4 address that a dual-stack socket writes as IPv6 becomes an IPv4 address.
#[cfg(target_os = "linux")]
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
    use std::sync::OnceLock;

    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto,
        socket_with,
    };

    use super::{Owner, plain};

    /// A socket as the kernel describes it. A socket that its process closed has no inode, and then the kernel may
    /// report user 0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct SocketOwner {
        pub uid: u32,
        pub inode: u32,
    }

    /// One way to ask the kernel for the owner of a pair of addresses.
    type Look = fn(SocketAddr, SocketAddr) -> io::Result<Option<SocketOwner>>;

    pub(super) fn owner(peer: SocketAddr, local: SocketAddr) -> Owner {
        let look = way();
        let own = rustix::process::geteuid().as_raw();
        // Two looks: a socket that still has its inode at the second look was not closed at the first, so the user of
        // the first look is its owner.
        let seen = look(peer, local).and_then(|first| Ok((first, look(peer, local)?)));
        match seen {
            Ok((Some(first), Some(again))) if again.inode != 0 && first == again => {
                match first.uid == own {
                    // Every user that this namespace does not map has the overflow uid, so equal uids prove nothing.
                    true if is_nobody(own) => Owner::Unknown,
                    true => Owner::Own,
                    false => Owner::Other,
                }
            }
            Ok(_) => Owner::Unknown,
            Err(error) => {
                tracing::warn!(%error, "cannot ask the kernel for the user of a connection");
                Owner::Unknown
            }
        }
    }

    /// Whether a user is the overflow user, which stands for every user of other namespaces.
    fn is_nobody(uid: u32) -> bool {
        let nobody = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
        nobody.is_ok_and(|text| text.trim().parse() == Ok(uid))
    }

    /// The first method that finds a socket of our own. Kernels can be built without sock_diag, and some sandboxes
    /// refuse netlink.
    fn way() -> Look {
        static WAY: OnceLock<Look> = OnceLock::new();
        *WAY.get_or_init(|| match knows_ours(by_diag) {
            Ok(true) => by_diag,
            seen => {
                tracing::info!(
                    ?seen,
                    "the kernel has no sock_diag; /proc/net names the user of a connection"
                );
                by_lists
            }
        })
    }

    /// Whether a method finds a socket that certainly exists: one of our own, from loopback to loopback.
    fn knows_ours(look: Look) -> io::Result<bool> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let ours = TcpStream::connect(listener.local_addr()?)?;
        let found = look(ours.local_addr()?, ours.peer_addr()?)?;
        Ok(found.is_some_and(|found| found.inode != 0))
    }

    // Numbers of `linux/netlink.h`, `linux/sock_diag.h` and the socket headers.
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const NLMSG_ERROR: u16 = 2;
    const NLM_F_REQUEST: u16 = 1;
    const IPPROTO_TCP: u8 = 6;
    const ENOENT: i32 = -2;
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    /// Lengths of `nlmsghdr`, `inet_diag_req_v2` and `inet_diag_msg`.
    const HEAD: usize = 16;
    const QUESTION: usize = 56;
    const ANSWER: usize = 72;

    /// One exact look-up; its cost does not grow with the number of sockets.
    pub(super) fn by_diag(from: SocketAddr, to: SocketAddr) -> io::Result<Option<SocketOwner>> {
        let kind = SocketType::DGRAM;
        let socket = socket_with(
            AddressFamily::NETLINK,
            kind,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        let kernel = netlink::SocketAddrNetlink::new(0, 0);
        sendto(&socket, &question(from, to), SendFlags::empty(), &kernel)?;
        let mut answer = [0; 1024];
        // The kernel answers before `sendto` returns.
        let (length, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
        read(&answer[..length], from, to)
    }

    /// `nlmsghdr` and `inet_diag_req_v2` as bytes: lengths and flags in the order of this machine, ports and addresses
    /// in that of the network.
    fn question(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
        let family = if from.is_ipv4() && to.is_ipv4() { AF_INET } else { AF_INET6 };
        let mut bytes = Vec::with_capacity(HEAD + QUESTION);
        bytes.extend(((HEAD + QUESTION) as u32).to_ne_bytes());
        bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        bytes.extend(NLM_F_REQUEST.to_ne_bytes());
        // The sequence number and the sender's port, which the kernel fills in.
        bytes.extend([0; 8]);
        bytes.extend([family, IPPROTO_TCP, 0, 0]);
        // In any state.
        bytes.extend(u32::MAX.to_ne_bytes());
        bytes.extend(from.port().to_be_bytes());
        bytes.extend(to.port().to_be_bytes());
        bytes.extend(octets(from.ip(), family));
        bytes.extend(octets(to.ip(), family));
        // On any interface, with any cookie.
        bytes.extend([0; 4]);
        bytes.extend([0xff; 8]);
        bytes
    }

    /// An address in the 16 bytes of the request; an IPv4 address fills the first four.
    fn octets(address: IpAddr, family: u8) -> [u8; 16] {
        match address {
            IpAddr::V4(address) if family == AF_INET => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&address.octets());
                bytes
            }
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        }
    }

    /// `None` unless the answer is about this pair: for a pair that is gone the kernel may answer with a
    /// socket that listens on the port.
    fn read(answer: &[u8], from: SocketAddr, to: SocketAddr) -> io::Result<Option<SocketOwner>> {
        let odd = || io::Error::other("an answer of sock_diag that cannot be read");
        let bytes = |start: usize, length: usize| answer.get(start..start + length).ok_or_else(odd);
        // Offsets are those of the C structs. `get` keeps a short answer from ending in a panic.
        let short = |start| Ok::<_, io::Error>([bytes(start, 2)?[0], bytes(start, 2)?[1]]);
        let long = |start| {
            let four: [u8; 4] = bytes(start, 4)?.try_into().map_err(|_| odd())?;
            Ok::<_, io::Error>(four)
        };
        match u16::from_ne_bytes(short(4)?) {
            SOCK_DIAG_BY_FAMILY => {}
            // The kernel reports "no such socket" as an error message of netlink.
            NLMSG_ERROR => {
                return match i32::from_ne_bytes(long(HEAD)?) {
                    ENOENT => Ok(None),
                    error => Err(io::Error::from_raw_os_error(-error)),
                };
            }
            _ => return Err(odd()),
        }
        bytes(HEAD, ANSWER)?;
        let address = |start: usize, port: usize| {
            let ip = match answer[HEAD] {
                AF_INET => IpAddr::from(long(start)?),
                _ => {
                    let all: [u8; 16] = bytes(start, 16)?.try_into().map_err(|_| odd())?;
                    IpAddr::from(all)
                }
            };
            let port = u16::from_be_bytes(short(port)?);
            Ok::<_, io::Error>(plain(SocketAddr::new(ip, port)))
        };
        let source = address(HEAD + 8, HEAD + 4)?;
        let destination = address(HEAD + 24, HEAD + 6)?;
        let found = SocketOwner {
            uid: u32::from_ne_bytes(long(HEAD + 64)?),
            inode: u32::from_ne_bytes(long(HEAD + 68)?),
        };
        Ok((source == from && destination == to).then_some(found))
    }

    /// Reads every socket of the machine: some milliseconds for thousands of them.
    pub(super) fn by_lists(from: SocketAddr, to: SocketAddr) -> io::Result<Option<SocketOwner>> {
        for list in ["/proc/net/tcp", "/proc/net/tcp6"] {
            let text = match std::fs::read_to_string(list) {
                Ok(text) => text,
                // A kernel without IPv6 has no list of its sockets.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if let Some(found) = text.lines().find_map(|line| on_line(line, from, to)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The owner on one line of `/proc/net/tcp`, if the line is about this pair of addresses.
    fn on_line(line: &str, from: SocketAddr, to: SocketAddr) -> Option<SocketOwner> {
        let mut words = line.split_whitespace();
        let (source, destination) = (listed(words.nth(1)?)?, listed(words.next()?)?);
        if (source, destination) != (from, to) {
            return None;
        }
        // The state, both queues, the timer and the retransmissions stand before the user.
        let uid = words.nth(4)?.parse().ok()?;
        Some(SocketOwner { uid, inode: words.nth(1)?.parse().ok()? })
    }

    /// `0100007F:0BB9`: each four bytes of an address as a number of this machine, then the port.
    fn listed(text: &str) -> Option<SocketAddr> {
        let (address, port) = text.split_once(':')?;
        let part = |n: usize| {
            let digits = address.get(n * 8..(n + 1) * 8)?;
            Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
        };
        let ip = match address.len() {
            8 => IpAddr::V4(Ipv4Addr::from(part(0)?)),
            32 => {
                let parts = [part(0)?, part(1)?, part(2)?, part(3)?];
                let octets: [u8; 16] = parts.concat().try_into().ok()?;
                IpAddr::V6(Ipv6Addr::from(octets))
            }
            _ => return None,
        };
        Some(plain(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?)))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Both ends of a connection to a listener at `address`, from a client that writes it as `named`.
        fn pair(address: &str, named: &str) -> io::Result<(TcpStream, TcpStream)> {
            let listener = TcpListener::bind((address, 0))?;
            let port = listener.local_addr()?.port();
            let client = TcpStream::connect((named, port))?;
            Ok((client, listener.accept()?.0))
        }

        fn owner_at(server: &TcpStream) -> Owner {
            let (peer, local) = (server.peer_addr(), server.local_addr());
            super::super::owner(peer.expect("a peer"), local.expect("an address"))
        }

        #[test]
        fn the_peer_is_found_by_both_ways_and_in_both_families() {
            for (address, named) in [
                ("127.0.0.1", "127.0.0.1"),
                // A client for IPv6 that reaches an IPv4 listener.
                ("127.0.0.1", "::ffff:127.0.0.1"),
                ("::1", "::1"),
                ("::", "127.0.0.1"),
            ] {
                let Ok((client, server)) = pair(address, named) else {
                    use std::io::Write;
                    let _ = writeln!(io::stderr(), "skipped: {address}: no such address here");
                    continue;
                };
                let peer = plain(server.peer_addr().expect("a peer"));
                let local = plain(server.local_addr().expect("an address"));
                let own = rustix::process::geteuid().as_raw();
                for look in [by_diag as Look, by_lists] {
                    let found = look(peer, local).expect("an answer").expect("a socket");
                    assert_eq!(found.uid, own, "{address} {named}");
                    assert_ne!(found.inode, 0, "{address} {named}");
                }
                assert_eq!(owner_at(&server), Owner::Own, "{address} {named}");
                drop(client);
            }
        }

        #[test]
        fn a_peer_that_closed_its_socket_is_nobody() {
            let (client, server) = pair("127.0.0.1", "127.0.0.1").expect("a pair");
            drop(client);
            assert_eq!(owner_at(&server), Owner::Unknown);
            let gone = "127.0.0.1:1".parse().expect("an address");
            let local = server.local_addr().expect("an address");
            assert_eq!(super::super::owner(gone, local), Owner::Unknown);
        }

        #[test]
        fn a_listener_is_not_taken_for_the_peer() {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
            let address = listener.local_addr().expect("an address");
            let elsewhere = "127.0.0.1:1".parse().expect("an address");
            assert_eq!(by_diag(address, elsewhere).expect("an answer"), None);
            assert_eq!(by_lists(address, elsewhere).expect("an answer"), None);
        }
    }
}
