//! The read in which a thread waits, from `/proc`.
//!
//! A server sees reads of pages in requests as long as the kernel's read-ahead; the length of the program's
//! own read is in the thread's system call. While the thread waits, `/proc/TID/syscall` has the call's number
//! and arguments. `/proc/TID/fdinfo/FD` has the offset where a `read` continues. Both need the right to trace the thread,
//! which root has.
//!
//! Limits: only `read` and `pread64`. The lengths of vectors are in the program's memory, and `io_uring` and
//! `sendfile` read in other threads or in other sizes. The thread may do something else by the time it is
//! inspected. The answer is therefore a guess about the waiting reader, and never changes what data are read.

use crate::small_file::{read_bytes, read_text};
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use std::path::Path;

/// The content of `/proc/TID/syscall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syscall {
    /// It is on a processor, or about to be.
    Running,
    /// It waits in none of the known calls: in a page fault, or in another call.
    Other,
    /// It waits in a read of a descriptor.
    Read { fd: u64, length: u64, offset: Option<u64> },
}

/// What a thread was doing when it was inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// It is on a processor, or about to be; another check may find it waiting.
    Running,
    /// It waits for something else, or cannot be inspected.
    Other,
    /// It waits in a read of these bytes of a file.
    Reads(ByteSpan),
}

/// The read in which a thread waits; `thread` is its id in `/proc`.
#[must_use]
pub fn thread_state(thread: u32) -> ThreadState {
    within(Path::new("/proc"), thread)
}

/// The process of a thread; `thread` is its id in `/proc`.
#[must_use]
pub fn process_of(thread: u32) -> Option<u32> {
    // The thread's name is in the file, and may have any bytes.
    let status = read_bytes(Path::new(&format!("/proc/{thread}/status"))).ok()?;
    String::from_utf8_lossy(&status).lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

fn within(proc: &Path, thread: u32) -> ThreadState {
    let folder = proc.join(thread.to_string());
    let call = read_text(&folder.join("syscall")).map_or(Syscall::Other, |text| parse(&text));
    let (fd, length, offset) = match call {
        Syscall::Running => return ThreadState::Running,
        Syscall::Other => return ThreadState::Other,
        Syscall::Read { fd, length, offset } => (fd, length, offset),
    };
    let position = || position(&read_text(&folder.join("fdinfo").join(fd.to_string())).ok()?);
    let span = offset.or_else(position).and_then(|start| {
        let end = start.checked_add(length).filter(|end| i64::try_from(*end).is_ok())?;
        Some(ByteSpan::at(ByteOffset(start), Bytes(end - start)))
    });
    span.map_or(ThreadState::Other, ThreadState::Reads)
}

/// Parses the number of a call and its arguments, in hexadecimal.
fn parse(text: &str) -> Syscall {
    let mut words = text.split_ascii_whitespace();
    let number = match words.next() {
        Some("running") => return Syscall::Running,
        Some(number) => number.parse::<i64>(),
        None => return Syscall::Other,
    };
    let mut arguments = [0; 4];
    for argument in &mut arguments {
        let word = words.next().and_then(|word| word.strip_prefix("0x"));
        let Some(value) = word.and_then(|word| u64::from_str_radix(word, 16).ok()) else {
            return Syscall::Other;
        };
        *argument = value;
    }
    let [fd, _, length, offset] = arguments;
    match number {
        Ok(libc::SYS_read) => Syscall::Read { fd, length, offset: None },
        Ok(libc::SYS_pread64) => Syscall::Read { fd, length, offset: Some(offset) },
        _ => Syscall::Other,
    }
}

/// The file position of a descriptor.
fn position(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::{Duration, Instant};

    fn span(start: u64, length: u64) -> ThreadState {
        ThreadState::Reads(ByteSpan::at(ByteOffset(start), Bytes(length)))
    }

    #[test]
    fn reads_are_distinguished_from_other_calls() {
        let pread = format!("{} 0x4 0x7f00 0xf0000 0x64 0x0 0x0 0x7ffe 0x7f6c\n", libc::SYS_pread64);
        assert_eq!(parse(&pread), Syscall::Read { fd: 4, length: 0xf_0000, offset: Some(100) });
        let read = format!("{} 0x3 0x7f00 0x20000 0x0 0x0 0x0 0x7ffe 0x7f6c", libc::SYS_read);
        assert_eq!(parse(&read), Syscall::Read { fd: 3, length: 0x2_0000, offset: None });
        assert_eq!(parse("running\n"), Syscall::Running);
        let others =
            ["", "-1 0x7ffe 0x7f6c", "230 0x0 0x0 0x7ffe 0x7ffe 0x0 0x0 0x1 0x2", "0", "17 0x4 zz 0x1 0x2"];
        assert!(others.iter().all(|text| parse(text) == Syscall::Other));
    }

    #[test]
    fn a_descriptors_position_is_read() {
        assert_eq!(position("pos:\t123456\nflags:\t0100000\nmnt_id:\t29\n"), Some(123_456));
        assert_eq!((position("flags:\t0\n"), position("pos:\tx\n")), (None, None));
    }

    #[test]
    fn what_cannot_be_a_range_is_none() {
        let proc = tempfile::tempdir().expect("a folder");
        let folder = proc.path().join("7/fdinfo");
        std::fs::create_dir_all(&folder).expect("made");
        let put = |text: String| std::fs::write(proc.path().join("7/syscall"), text).expect("written");
        put(format!("{} 0x3 0x1 0x10 0x0 0x0 0x0", libc::SYS_read));
        assert_eq!(within(proc.path(), 7), ThreadState::Other, "its position is unknown");
        std::fs::write(folder.join("3"), "pos:\t4096\n").expect("written");
        assert_eq!(within(proc.path(), 7), span(4096, 16));
        put(format!("{} 0x3 0x1 0x7fffffffffffffff 0x1 0x0 0x0", libc::SYS_pread64));
        assert_eq!(within(proc.path(), 7), ThreadState::Other, "beyond every file");
        assert_eq!(within(proc.path(), 8), ThreadState::Other, "no such thread");
    }

    #[test]
    fn a_thread_has_the_process_that_it_runs_in() {
        let own = || process_of(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let there = std::thread::spawn(move || {
            rustix::thread::set_name(c"\xfe\xff").expect("named");
            own()
        });
        let there = there.join().expect("ended");
        assert_eq!((own(), there), (Some(std::process::id()), Some(std::process::id())));
        assert_eq!(process_of(0), None);
    }

    /// A thread that waits in a read of a pipe, whose position is 0.
    #[test]
    fn a_thread_that_waits_is_seen_waiting() {
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        let (to, from) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            to.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).expect("heard");
            reader.read(&mut [0; 77]).expect("something")
        });
        let thread = from.recv().expect("its number");
        let begun = Instant::now();
        let mut state = thread_state(thread);
        while state != span(0, 77) && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(1));
            state = thread_state(thread);
        }
        writer.write_all(b"x").expect("written");
        assert_eq!(waiting.join().expect("ended"), 1);
        if state == ThreadState::Other {
            return println!("SKIPPED: /proc/TID/syscall is not readable here");
        }
        assert_eq!(state, span(0, 77));
    }
}
