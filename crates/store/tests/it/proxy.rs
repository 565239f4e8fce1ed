//! A proxy between a store and PostgreSQL. It can cut a connection at the worst moment, after a commit has happened
//! and before its reply arrives, or swallow all bytes. It carries no TLS, and says that the server has none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Proxy {
    address: String,
    armed: Arc<AtomicBool>,
    open: watch::Sender<bool>,
}

/// The spelling of both sides: the client's command and the server's reply.
const COMMIT: &[u8] = b"COMMIT\0";

/// The client's question before it begins.
const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];

fn holds_commit(bytes: &[u8]) -> bool {
    bytes.windows(COMMIT.len()).any(|window| window == COMMIT)
}

impl Proxy {
    pub async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (armed, server) = (Arc::new(AtomicBool::new(false)), server.to_owned());
        let cut = armed.clone();
        let (open, gate) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.expect("PostgreSQL answers");
                tokio::spawn(carry(client, server, cut.clone(), gate.clone()));
            }
        });
        Self { address, armed, open }
    }

    /// Host and port of the proxy.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The next commit happens, and its reply is lost with the connection.
    pub fn cut_after_next_commit(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// From now on nothing gets through, without any error.
    pub fn swallow(&self) {
        self.open.send_replace(false);
    }

    /// From now on bytes get through again; connections that lost some are broken.
    pub fn carry_on(&self) {
        self.open.send_replace(true);
    }

    pub fn has_cut(&self) -> bool {
        !self.armed.load(Ordering::SeqCst)
    }
}

async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    armed: Arc<AtomicBool>,
    mut gate: watch::Receiver<bool>,
) {
    let (mut asked, mut said) = (vec![0; 65536], vec![0; 65536]);
    loop {
        if !*gate.borrow() {
            let _ = gate.wait_for(|open| *open).await;
            return;
        }
        tokio::select! {
            Ok(()) = gate.changed() => {}
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                if &asked[..count] == SSL_REQUEST {
                    if client.write_all(b"N").await.is_err() {
                        return;
                    }
                    continue;
                }
                let commits = holds_commit(&asked[..count]);
                if server.write_all(&asked[..count]).await.is_err() {
                    return;
                }
                if commits && armed.load(Ordering::SeqCst) {
                    let mut reply = Vec::new();
                    while !holds_commit(&reply) {
                        let Ok(count @ 1..) = server.read(&mut said).await else { return };
                        reply.extend_from_slice(&said[..count]);
                    }
                    armed.store(false, Ordering::SeqCst);
                    return;
                }
            }
            read = server.read(&mut said) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&said[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}
