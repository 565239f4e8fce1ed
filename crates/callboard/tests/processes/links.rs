//! Clients, a server and PostgreSQL behind proxies on loopback that break what they carry: a request or a statement arrives in
//! part, an answer is lost after the work is done, an answer comes late. Clients repeat what was not answered. An
//! acknowledged write exists, once; deps and notes of a shared task are a set, a leased task is a register with fences.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::http::Server;
use crate::kill::{Shared, begin, judge, maker_on};
use crate::peer::board;
use crate::schema::Schema;

/// Acknowledged writes of a run.
const WRITES: u64 = 1000;
/// The least number of each kind of fault in a run.
const FAULTS: u64 = 10;
/// How many packets pass while a late answer is kept back.
const LATE: u64 = 20;

#[derive(Clone, Copy)]
enum Way {
    There,
    Back,
}

/// The faults of a link, and how often each came.
#[derive(Default)]
struct Faults {
    is_rough: AtomicBool,
    /// One packet of so many is lost, and its connection with it.
    one_of: u64,
    has_late_answers: bool,
    random: Mutex<u64>,
    passed: Mutex<(u64, bool)>,
    moved: Condvar,
    cut_there: AtomicU64,
    cut_back: AtomicU64,
    late: AtomicU64,
}

impl Faults {
    fn below(&self, end: u64) -> u64 {
        let mut random = self.random.lock().unwrap();
        *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*random >> 33) % end
    }

    /// How many bytes of a packet arrive.
    fn arriving(&self, way: Way, bytes: usize) -> usize {
        if !self.is_rough.load(Ordering::SeqCst) || self.below(self.one_of) > 0 {
            return bytes;
        }
        match way {
            Way::There => {
                self.cut_there.fetch_add(1, Ordering::SeqCst);
                self.below(bytes as u64) as usize
            }
            Way::Back => {
                self.cut_back.fetch_add(1, Ordering::SeqCst);
                0
            }
        }
    }

    /// Lets a packet pass, or keeps it back until others have passed. Only one is kept back at a time.
    fn pass(&self, way: Way) {
        let mut passed = self.passed.lock().unwrap();
        passed.0 += 1;
        self.moved.notify_all();
        let is_late = matches!(way, Way::Back) && self.has_late_answers && !passed.1;
        if is_late && self.is_rough.load(Ordering::SeqCst) && self.below(self.one_of) == 0 {
            self.late.fetch_add(1, Ordering::SeqCst);
            passed.1 = true;
            let until = passed.0 + LATE;
            let waits =
                |passed: &mut (u64, bool)| passed.0 < until && self.is_rough.load(Ordering::SeqCst);
            self.moved.wait_while(passed, waits).unwrap().1 = false;
        }
    }

    fn carry(&self, way: Way, mut from: &TcpStream, mut to: &TcpStream) {
        let mut packet = [0; 1 << 14];
        while let Ok(bytes @ 1..) = from.read(&mut packet) {
            let arriving = self.arriving(way, bytes);
            self.pass(way);
            if to.write_all(&packet[..arriving]).is_err() || arriving < bytes {
                break;
            }
        }
        // Both ends learn that the connection is over, whichever of them is to read next.
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

struct Link {
    address: String,
    faults: Arc<Faults>,
}

impl Link {
    /// A proxy to a server. It breaks nothing at first.
    fn to(server: &str, faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (server, faults) = (server.to_owned(), Arc::new(faults));
        let shared = faults.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let ends = Arc::new((client.unwrap(), TcpStream::connect(&server).unwrap()));
                for way in [Way::There, Way::Back] {
                    let (faults, ends) = (shared.clone(), ends.clone());
                    std::thread::spawn(move || match way {
                        Way::There => faults.carry(way, &ends.0, &ends.1),
                        Way::Back => faults.carry(way, &ends.1, &ends.0),
                    });
                }
            }
        });
        Self { address, faults }
    }

    fn set_rough(&self, is_rough: bool) {
        self.faults.is_rough.store(is_rough, Ordering::SeqCst);
        // The lock is taken so that an answer that is kept back sees the change.
        let _passed = self.faults.passed.lock().unwrap();
        self.faults.moved.notify_all();
    }
}

#[test]
fn links_that_break_lose_nothing_acknowledged_and_nothing_happens_twice() {
    let Some(schema) = Schema::new() else { return };
    let board = board();
    let faults =
        |one_of, has_late_answers| Faults { one_of, has_late_answers, ..Faults::default() };
    let database = Link::to(schema.server(), faults(150, false));
    let url = schema.url_via(&database.address);
    let server = Server::start_with(board.path(), &["--store", &url]);
    let clients = Link::to(server.url.strip_prefix("http://").unwrap(), faults(40, true));
    let shared = Arc::new(Shared::at(&format!("http://{}", clients.address)));
    let maker = maker_on(board.path(), schema.url());
    let links = [&database, &clients];
    links.iter().for_each(|link| link.set_rough(true));
    let workers = begin(&shared, maker);
    shared.wait_for(WRITES);
    links.iter().for_each(|link| link.set_rough(false));
    judge(&shared, workers, board.path(), schema.url());
    drop(server);
    for Link { faults, .. } in links {
        let [there, back, late] =
            [&faults.cut_there, &faults.cut_back, &faults.late].map(|n| n.load(Ordering::SeqCst));
        let is_late = late >= FAULTS || !faults.has_late_answers;
        assert!(there >= FAULTS && back >= FAULTS && is_late, "{there}, {back}, {late}");
    }
}
