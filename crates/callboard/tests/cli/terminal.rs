//! What people see on a terminal: a window with a width, and nothing that only programs read.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::fixture::World;

/// A pseudoterminal that commands run in.
pub struct Terminal;

impl Terminal {
    /// Runs a command in a window so many columns wide; answers what it printed, on both streams.
    pub fn run(world: &World, columns: u16, arguments: &[&str]) -> String {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).expect("it is ours");
        unlockpt(&ours).expect("it can be opened");
        let name = ptsname(&ours, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("a path");
        let theirs = || File::options().read(true).write(true).open(name).expect("its other end");
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let window: OwnedFd = theirs().into();
        tcsetwinsize(&window, size).expect("its size");
        let mut child = world
            .command(&world.root(), arguments)
            .env("NO_COLOR", "1")
            .stdout(Stdio::from(theirs()))
            .stderr(Stdio::from(theirs()))
            .spawn()
            .expect("the binary starts");
        // While it runs the terminal is read, or a long answer would fill it; and this end stays
        // open until then, or what is left in it would be lost.
        let mut reading = File::from(ours);
        let reader = std::thread::spawn(move || {
            let (mut text, mut part) = (Vec::new(), [0; 4096]);
            // A terminal that nobody has open any more is an error instead of an end.
            while let Ok(count @ 1..) = reading.read(&mut part) {
                text.extend_from_slice(&part[..count]);
            }
            String::from_utf8_lossy(&text).replace('\r', "")
        });
        child.wait().expect("it ends");
        drop(window);
        reader.join().expect("what was printed")
    }
}
