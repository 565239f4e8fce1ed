//! A disk under test. SQLite reaches files through a VFS; this one stands before the machine's own, records each write,
//! truncation and flush, and can fail them. A flush is only recorded: what survives a power cut is computed (`image.rs`).
//!
//! The VFS becomes the default of the process, so the store under test opens its files as always and knows nothing of it.

#![allow(unsafe_code, reason = "a VFS is a table of C functions")]

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once};

use rusqlite::ffi;

/// One step of the disk; files are named without their folder.
#[derive(Clone, Debug)]
pub enum Step {
    /// The file was there, and on disk, before it was first opened.
    Found {
        file: String,
        bytes: Vec<u8>,
    },
    Create {
        file: String,
    },
    Write {
        file: String,
        at: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        file: String,
        size: u64,
    },
    Flush {
        file: String,
    },
    /// The flush failed, and the kernel forgot which parts of the file it had still to write.
    FlushFailed {
        file: String,
    },
    Delete {
        file: String,
        flushed: bool,
    },
}

/// A fault of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO.
    Write,
    /// ENOSPC, after the first half was written.
    Full,
    /// EIO of a flush.
    Flush,
}

/// `fault` strikes after this many calls that it could strike, and then this many times.
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    pub fault: Fault,
    pub after: usize,
    pub times: usize,
}

#[derive(Default)]
struct Record {
    steps: Vec<Step>,
    files: BTreeSet<String>,
    trouble: Option<Trouble>,
}

/// The disk of one folder.
#[derive(Default)]
pub struct Disk(Mutex<Record>);

impl Disk {
    /// Records every file of SQLite in this folder from now on.
    pub fn over(folder: &Path) -> Arc<Self> {
        stand_before_the_machine();
        let disk = Arc::new(Self::default());
        lock(&VFS).disks.push((folder.canonicalize().unwrap(), disk.clone()));
        disk
    }

    /// How many steps there are: the present moment.
    pub fn moment(&self) -> usize {
        lock(&self.0).steps.len()
    }

    pub fn steps(&self) -> Vec<Step> {
        lock(&self.0).steps.clone()
    }

    pub fn trouble(&self, trouble: Option<Trouble>) {
        lock(&self.0).trouble = trouble;
    }

    /// Whether trouble is still to come or under way.
    pub fn is_troubled(&self) -> bool {
        lock(&self.0).trouble.is_some()
    }
}

impl Record {
    /// Whether a fault of one of these kinds strikes now.
    fn strikes(&mut self, faults: &[Fault]) -> Option<Fault> {
        let trouble = self.trouble.as_mut().filter(|trouble| faults.contains(&trouble.fault))?;
        if trouble.after > 0 {
            trouble.after -= 1;
            return None;
        }
        let fault = trouble.fault;
        trouble.times -= 1;
        if trouble.times == 0 {
            self.trouble = None;
        }
        Some(fault)
    }
}

/// Told of each call that is about to change a file: the name of the file, and what happens to it.
pub type Watch = Arc<dyn Fn(&str, &'static str) + Send + Sync>;

/// Tells of every file of SQLite in this folder from now on, also of those that no disk records.
pub fn watch(folder: &Path, watch: Watch) {
    stand_before_the_machine();
    lock(&VFS).watched.push((folder.canonicalize().unwrap(), watch));
}

/// What the functions below know of open files, by the address that SQLite gave each.
#[derive(Default)]
struct Vfs {
    disks: Vec<(PathBuf, Arc<Disk>)>,
    watched: Vec<(PathBuf, Watch)>,
    open: HashMap<usize, Open>,
    /// Our table of functions for each table of the machine's VFS.
    tables: HashMap<usize, usize>,
}

#[derive(Clone)]
struct Open {
    file: String,
    /// `None` for files that are not recorded.
    disk: Option<Arc<Disk>>,
    watch: Option<Watch>,
    table: usize,
}

impl Open {
    fn is_about_to(&self, what: &'static str) {
        if let Some(watch) = &self.watch {
            watch(&self.file, what);
        }
    }
}

static VFS: LazyLock<Mutex<Vfs>> = LazyLock::new(Mutex::default);
static BELOW: Mutex<usize> = Mutex::new(0);

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The machine's own VFS.
fn below() -> *mut ffi::sqlite3_vfs {
    *lock(&BELOW) as *mut ffi::sqlite3_vfs
}

fn stand_before_the_machine() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the found VFS is static; the copy is leaked and so outlives every connection. Its functions are those of
        // the machine but for two, which have the types that SQLite declares.
        unsafe {
            assert_eq!(ffi::sqlite3_initialize(), ffi::SQLITE_OK);
            let machine = ffi::sqlite3_vfs_find(std::ptr::null());
            *lock(&BELOW) = machine as usize;
            let mut ours = *machine;
            ours.zName = c"power".as_ptr();
            ours.pNext = std::ptr::null_mut();
            ours.xOpen = Some(open);
            ours.xDelete = Some(delete);
            let registered = ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 1);
            assert_eq!(registered, ffi::SQLITE_OK);
        }
    });
}

/// The disk and the name of a file. A database that has no name yet (`NAME.part-PID`) is not recorded: it is flushed and
/// renamed as a whole, past SQLite.
fn recorded(path: &Path) -> (Option<Arc<Disk>>, String) {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = path.parent().unwrap_or(Path::new(""));
    let vfs = lock(&VFS);
    let disk = vfs.disks.iter().find(|(known, _)| known == folder).map(|(_, disk)| disk.clone());
    (disk.filter(|_| !file.contains(".part-")), file)
}

fn watcher(path: &Path) -> Option<Watch> {
    let vfs = lock(&VFS);
    let of_folder = |(known, _): &&(PathBuf, Watch)| path.parent() == Some(known);
    vfs.watched.iter().find(of_folder).map(|(_, watch)| watch.clone())
}

/// SAFETY: `name` is null or a C string, as SQLite promises for names of files.
unsafe fn path_of(name: *const c_char) -> Option<PathBuf> {
    // SAFETY: as above.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned().into())
}

/// SAFETY: called by SQLite with a `file` of `szOsFile` bytes.
unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: `name` comes from SQLite. The machine's `xOpen` gets what SQLite gave, and a successful one sets `pMethods`.
    unsafe {
        let path = path_of(name);
        let was_there = path.as_ref().is_some_and(|path| path.exists());
        let opened = (*below()).xOpen.unwrap()(vfs, name, file, flags, out);
        if opened != ffi::SQLITE_OK || (*file).pMethods.is_null() {
            return opened;
        }
        let machine = (*file).pMethods;
        let watch = path.as_deref().and_then(watcher);
        let (disk, file_name) = path.map_or((None, String::new()), |path| recorded(&path));
        if let Some(disk) = &disk {
            let mut record = lock(&disk.0);
            if !was_there {
                record.steps.push(Step::Create { file: file_name.clone() });
            } else if !record.files.contains(&file_name) {
                let bytes = whole(machine, file);
                record.steps.push(Step::Found { file: file_name.clone(), bytes });
            }
            record.files.insert(file_name.clone());
        }
        let mut vfs = lock(&VFS);
        let table = *vfs.tables.entry(machine as usize).or_insert_with(|| {
            let mut ours = *machine;
            // The third version would map files into memory, past these functions.
            ours.iVersion = ours.iVersion.min(2);
            ours.xClose = Some(close);
            ours.xWrite = Some(write);
            ours.xTruncate = Some(truncate);
            ours.xSync = Some(flush);
            Box::leak(Box::new(ours)) as *const ffi::sqlite3_io_methods as usize
        });
        let table_below = machine as usize;
        vfs.open.insert(file as usize, Open { file: file_name, disk, watch, table: table_below });
        (*file).pMethods = table as *const ffi::sqlite3_io_methods;
        opened
    }
}

/// The content of a file, read by the functions of the machine: closing a second descriptor would drop SQLite's locks.
///
/// SAFETY: `file` was opened by the VFS that `machine` belongs to.
unsafe fn whole(machine: *const ffi::sqlite3_io_methods, file: *mut ffi::sqlite3_file) -> Vec<u8> {
    // SAFETY: as above; the buffer has the size that is read.
    unsafe {
        let mut size = 0;
        assert_eq!((*machine).xFileSize.unwrap()(file, &mut size), ffi::SQLITE_OK);
        let mut bytes = vec![0; size as usize];
        let into = bytes.as_mut_ptr().cast::<c_void>();
        assert_eq!((*machine).xRead.unwrap()(file, into, size as c_int, 0), ffi::SQLITE_OK);
        bytes
    }
}

/// The record of an open file, and the machine's functions for it.
fn found(file: *mut ffi::sqlite3_file) -> (Open, *const ffi::sqlite3_io_methods) {
    let open = lock(&VFS).open[&(file as usize)].clone();
    let table = open.table as *const ffi::sqlite3_io_methods;
    (open, table)
}

/// SAFETY: called by SQLite with an open file.
unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let (_, machine) = found(file);
    lock(&VFS).open.remove(&(file as usize));
    // SAFETY: the file gets the functions back that it was opened with.
    unsafe {
        (*file).pMethods = machine;
        (*machine).xClose.unwrap()(file)
    }
}

/// SAFETY: called by SQLite with an open file and `count` bytes.
unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    count: c_int,
    at: i64,
) -> c_int {
    let (open, machine) = found(file);
    open.is_about_to("write");
    let Open { file: name, disk, .. } = open;
    // SAFETY: SQLite gives `count` bytes, and a struck write passes only a part of them on.
    unsafe {
        let write = (*machine).xWrite.unwrap();
        let Some(disk) = disk else { return write(file, from, count, at) };
        let mut record = lock(&disk.0);
        let (count, answer) = match record.strikes(&[Fault::Write, Fault::Full]) {
            Some(Fault::Full) => (count / 2, ffi::SQLITE_FULL),
            Some(Fault::Write | Fault::Flush) => return ffi::SQLITE_IOERR_WRITE,
            None => (count, ffi::SQLITE_OK),
        };
        let written = write(file, from, count, at);
        if written != ffi::SQLITE_OK {
            return written;
        }
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), count as usize).to_vec();
        record.steps.push(Step::Write { file: name, at: at as u64, bytes });
        answer
    }
}

/// SAFETY: called by SQLite with an open file.
unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    let (open, machine) = found(file);
    open.is_about_to("truncate");
    let Open { file: name, disk, .. } = open;
    // SAFETY: the arguments of SQLite go on as they came.
    let done = unsafe { (*machine).xTruncate.unwrap()(file, size) };
    if let Some(disk) = disk.filter(|_| done == ffi::SQLITE_OK) {
        lock(&disk.0).steps.push(Step::Truncate { file: name, size: size as u64 });
    }
    done
}

/// SAFETY: called by SQLite with an open file.
unsafe extern "C" fn flush(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    let (open, _) = found(file);
    open.is_about_to("flush");
    let Open { file: name, disk, .. } = open;
    let Some(disk) = disk else { return ffi::SQLITE_OK };
    let mut record = lock(&disk.0);
    match record.strikes(&[Fault::Flush]) {
        Some(_) => {
            record.steps.push(Step::FlushFailed { file: name });
            ffi::SQLITE_IOERR_FSYNC
        }
        None => {
            record.steps.push(Step::Flush { file: name });
            ffi::SQLITE_OK
        }
    }
}

/// SAFETY: called by SQLite with the name of a file.
unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flush_folder: c_int,
) -> c_int {
    // SAFETY: `name` comes from SQLite.
    let path = unsafe { path_of(name) };
    if let Some((path, watch)) = path.as_deref().and_then(|path| Some((path, watcher(path)?))) {
        watch(&path.file_name().unwrap_or_default().to_string_lossy(), "delete");
    }
    // SAFETY: the arguments of SQLite go on as they came; the folder is never flushed for real.
    let done = unsafe { (*below()).xDelete.unwrap()(vfs, name, 0) };
    let (disk, file) = path.map_or((None, String::new()), |path| recorded(&path));
    if let Some(disk) = disk.filter(|_| done == ffi::SQLITE_OK) {
        let mut record = lock(&disk.0);
        record.files.remove(&file);
        record.steps.push(Step::Delete { file, flushed: flush_folder != 0 });
    }
    done
}
