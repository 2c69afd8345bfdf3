//! Small files that the kernel writes: `/proc` and `/sys`.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

/// How much of such a file is read. `/proc/self/mountinfo` is the longest; at some 150 bytes a line
/// this holds several thousand mounts.
const LENGTH_LIMIT: usize = 1 << 20;

/// The file's text, `None` where it can't be read or is no text.
///
/// It goes past the C library: inside a host whose `read` and `close` are interposed by us, that
/// would lead back to us.
pub(crate) fn read(path: &Path) -> Option<String> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = Vec::new();
    let mut piece = [0u8; 4096];
    while bytes.len() < LENGTH_LIMIT {
        match rustix::io::read(&file, &mut piece) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    // Closing is safe for the host's locks: nobody holds fcntl locks on these.
    String::from_utf8(bytes).ok()
}

/// The file's text as one number.
pub(crate) fn read_number(path: &Path) -> Option<u64> {
    read(path)?.trim().parse().ok()
}
