//! Small files, read whole: files of `/proc` and `/sys`, and device profiles.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// How much of such a file is read. The longest is `/proc/self/mountinfo`; at some 150 bytes a line this
/// holds several thousand mounts. A wrong path (a device, a database) is not read to its end.
const LENGTH_LIMIT: usize = 1 << 20;

/// The text of a small file: its first MiB.
///
/// It bypasses the C library: inside a host whose `read` and `close` this project interposes, those calls
/// would lead back here.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text (not UTF-8)"))
}

/// The same for a file with any bytes, as in names.
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
    // Closing is safe for the host's locks: no program holds fcntl locks on these files.
    Ok(bytes)
}

/// The file's text; `None` where it cannot be read or is not UTF-8.
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
    fn a_text_is_read_and_an_error_names_its_cause() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "text\n").unwrap();
        assert_eq!(read_text(file.path()).unwrap(), "text\n");
        std::fs::write(file.path(), b"\xff").unwrap();
        assert_eq!(read_text(file.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_text(Path::new("/nonexistent")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read_text(Path::new("/")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        // Without an end: it is not read for ever.
        assert_eq!(read_text(Path::new("/dev/zero")).unwrap().len(), LENGTH_LIMIT);
    }
}
