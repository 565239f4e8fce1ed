//! A wire between a store and PostgreSQL that can be cut at the worst moment: after a commit has
//! happened and before anybody hears of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub struct Proxy {
    port: u16,
    armed: Arc<AtomicBool>,
}

/// How both sides spell it: the client's command and the server's "done".
const COMMIT: &[u8] = b"COMMIT\0";

fn holds_commit(bytes: &[u8]) -> bool {
    bytes.windows(COMMIT.len()).any(|window| window == COMMIT)
}

impl Proxy {
    pub async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (armed, server) = (Arc::new(AtomicBool::new(false)), server.to_owned());
        let cut = armed.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.expect("PostgreSQL answers");
                tokio::spawn(carry(client, server, cut.clone()));
            }
        });
        Self { port, armed }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The next commit happens, and its reply is lost with the connection.
    pub fn cut_after_next_commit(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    pub fn has_cut(&self) -> bool {
        !self.armed.load(Ordering::SeqCst)
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, armed: Arc<AtomicBool>) {
    let (mut asked, mut said) = (vec![0; 65536], vec![0; 65536]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
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
