//! Small files, read whole: what the kernel writes in `/proc` and `/sys`, and device profiles.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// How much of such a file is read. `/proc/self/mountinfo` is the longest; at some 150 bytes a line
/// this holds several thousand mounts. A wrong path (a device, a database) is not read whole.
const LENGTH_LIMIT: usize = 1 << 20;

/// The text of a small file: its first MiB.
///
/// It goes past the C library: inside a host whose `read` and `close` are interposed by us, that
/// would lead back to us.
///
/// # Errors
/// It can't be read, or is no text.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// The same of a file that may hold any bytes, as names are.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = Vec::new();
    let mut piece = [0u8; 4096];
    while bytes.len() < LENGTH_LIMIT {
        match rustix::io::read(&file, &mut piece) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // Closing is safe for the host's locks: nobody holds fcntl locks on these.
    Ok(bytes)
}

/// The file's text, `None` where it can't be read or is no text.
pub(crate) fn read(path: &Path) -> Option<String> {
    read_text(path).ok()
}

/// The file's text as one number.
pub(crate) fn read_number(path: &Path) -> Option<u64> {
    read(path)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_and_what_is_none_says_why() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "text\n").unwrap();
        assert_eq!(read_text(file.path()).unwrap(), "text\n");
        std::fs::write(file.path(), b"\xff").unwrap();
        assert_eq!(read_text(file.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_text(Path::new("/nonexistent")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read_text(Path::new("/")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        // Without an end: not read for ever.
        assert_eq!(read_text(Path::new("/dev/zero")).unwrap().len(), LENGTH_LIMIT);
    }
}
