//! Unmodified programs, with the library preloaded.
#![allow(clippy::print_stdout)]

mod common;

use common::*;
use std::path::Path;
use std::process::{Command, Output};

/// The exports of the library: figure 6, and the replaced functions.
const EXPORTED: [&str; 23] = [
    "__pread64_chk",
    "__pread_chk",
    "__read_chk",
    "close",
    "close_range",
    "closefrom",
    "dup2",
    "dup3",
    "ignore_accesses",
    "pread",
    "pread64",
    "preadv",
    "preadv2",
    "preadv64",
    "preadv64v2",
    "read",
    "readv",
    "register_client",
    "register_region",
    "request_prefetching",
    "unignore_accesses",
    "unregister_client",
    "unregister_region",
];

#[test]
fn it_exports_exactly_its_functions() {
    if !has("nm") {
        return;
    }
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().unwrap();
    let exported = succeed(&output);
    let mut exported: Vec<&str> =
        exported.lines().filter_map(|line| line.split_whitespace().last()).collect();
    exported.sort_unstable();
    assert_eq!(exported, EXPORTED);
}

fn both_ways(folder: &Path, command: &[&str]) -> (Output, Output) {
    let run = |preload: bool| {
        let mut program = Command::new(command[0]);
        program.args(&command[1..]).current_dir(folder);
        if preload {
            program.env("LD_PRELOAD", library());
        }
        program.output().unwrap()
    };
    (run(false), run(true))
}

fn behaves_the_same(folder: &Path, command: &[&str]) {
    let (without, with) = both_ways(folder, command);
    assert_eq!(without.status.code(), with.status.code(), "{command:?}");
    assert!(without.stdout == with.stdout, "{command:?} writes other output");
    assert_eq!(
        String::from_utf8_lossy(&without.stderr),
        String::from_utf8_lossy(&with.stderr),
        "{command:?}"
    );
}

#[test]
fn programs_behave_the_same() {
    let folder = folder();
    numbered_file(folder.path(), 500);
    let path = folder.path();
    if has("cat") {
        behaves_the_same(path, &["cat", "numbered"]);
        behaves_the_same(path, &["cat", "missing"]);
    }
    if has("dd") {
        behaves_the_same(path, &["dd", "if=numbered", "bs=1000", "skip=3", "count=700", "status=none"]);
    }
    if has("sh") && has("sort") {
        let script = "cat numbered | od -An -tx1 | sort | uniq -c; exec 3<numbered; head -c 9000 <&3 | cksum; exec 3<&-";
        behaves_the_same(path, &["sh", "-c", script]);
    }
    if has("python3") {
        let script = "
import os, subprocess, threading
fd = os.open('numbered', os.O_RDONLY)
print(os.pread(fd, 10, 4096 * 7), os.readv(fd, [bytearray(100), bytearray(5)]))
print(os.preadv(fd, [bytearray(5000)], 4096), os.lseek(fd, 0, os.SEEK_CUR))
print(subprocess.run(['cat', '/proc/self/comm'], capture_output=True, close_fds=True).stdout)
seen = []
threads = [threading.Thread(target=lambda n=n: seen.append(os.pread(fd, 3, 4096 * n))) for n in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sorted(seen), sum(open('numbered', 'rb').read()))
pid = os.fork()
if pid == 0:
    os._exit(os.pread(fd, 1, 4096 * 9)[0])
print(os.waitpid(pid, 0)[1] >> 8)
os.closerange(fd, fd + 5)
try:
    os.read(fd, 1)
except OSError as error:
    print(error)
";
        behaves_the_same(path, &["python3", "-c", script]);
    }
    if has("sqlite3") {
        let script = "CREATE TABLE t(a, b);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
            INSERT INTO t SELECT i, hex(i * 7919 % 20000) FROM n;
            CREATE INDEX t_b ON t(b); SELECT a, b FROM t ORDER BY b; PRAGMA integrity_check;";
        behaves_the_same(path, &["sqlite3", ":memory:", script]);
        for (database, preload) in [("stock.db", false), ("with.db", true)] {
            let mut program = Command::new("sqlite3");
            program.args([database, script]).current_dir(path);
            if preload {
                program.env("LD_PRELOAD", library());
            }
            succeed(&program.output().unwrap());
        }
        let read = |name| std::fs::read(path.join(name)).unwrap();
        assert!(read("stock.db") == read("with.db"), "the database differs");
        behaves_the_same(path, &["sqlite3", "stock.db", "SELECT sum(a), count(DISTINCT b) FROM t"]);
    }
}

#[test]
fn a_program_that_never_registers_writes_no_counters() {
    let folder = folder();
    numbered_file(folder.path(), 10);
    let stats = folder.path().join("stats.json");
    let output = Command::new("cat")
        .arg(folder.path().join("numbered"))
        .env("LD_PRELOAD", library())
        .env("FORESEEK_STATS", &stats)
        .output()
        .unwrap();
    succeed(&output);
    assert!(!stats.exists());
}

/// A host in another language, with its own threads and a callback that takes the host's locks.
#[test]
fn python_is_a_host_too() {
    if !has("python3") {
        return;
    }
    let folder = folder();
    numbered_file(folder.path(), 200);
    let stats = folder.path().join("stats.json");
    let script = "
import ctypes, os, random, threading
lib = ctypes.CDLL(os.environ['LD_PRELOAD'], use_errno=True)
class Entry(ctypes.Structure):
    _fields_ = [('offset', ctypes.c_longlong), ('fd', ctypes.c_int), ('mark', ctypes.c_bool)]
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong, ctypes.c_int, ctypes.c_longlong)
for name in ('register_client', 'register_region'):
    getattr(lib, name).restype = ctypes.c_void_p
lib.request_prefetching.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
lib.register_region.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
fd = os.open('numbered', os.O_RDONLY)
order = list(range(200))
random.Random(1).shuffle(order)
def announce(arg, mark_fd, mark, fd, offset):
    rest = order[order.index(offset // 4096):]
    entries = (Entry * len(rest))(*[Entry(page * 4096, fd, False) for page in rest])
    assert lib.request_prefetching(client, entries, len(rest), 2 | 8) == len(rest)
callback = Callback(announce)
client = lib.register_client(callback, None)
assert client and lib.register_region(client, fd, 0, 200 * 4096)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
for page in order:
    assert os.pread(fd, 4096, page * 4096) == bytes([page]) * 4096
def read_some(n):
    for page in order[n::4]:
        assert os.pread(fd, 4096, page * 4096) == bytes([page]) * 4096
threads = [threading.Thread(target=read_some, args=(n,)) for n in range(4)]
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print('done')
";
    // A hang is a failure, not an endless wait.
    let output = Command::new("timeout")
        .args(["60", "python3", "-c", script])
        .current_dir(folder.path())
        .env("LD_PRELOAD", library())
        .env("FORESEEK_STATS", &stats)
        .output()
        .unwrap();
    assert_eq!(succeed(&output), "done\n");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&stats).unwrap()).unwrap();
    assert!(json["clients"][0]["reads"].as_u64().unwrap() >= 200, "{json}");
}
