//! Text files, compressed or not, read whole up to a limit.

use anyhow::anyhow;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

/// The first two bytes of a gzip file (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads a text of at most `limit` bytes, decompressed where it is a gzip file. `operation` says what
/// for, for messages: "cannot read the trace".
///
/// # Errors
/// A file that cannot be read, is longer, is no UTF-8 text, or ends within its compressed data.
pub(crate) fn read(operation: &'static str, path: &Path, limit: u64) -> anyhow::Result<String> {
    let file = |cause: io::Error| anyhow!("{operation} {}: {cause}", path.display());
    if path.is_dir() {
        return Err(file(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, a file is wanted")));
    }
    let mut source = BufReader::new(File::open(path).map_err(file)?);
    let mut first = Vec::with_capacity(GZIP.len());
    source.by_ref().take(GZIP.len() as u64).read_to_end(&mut first).map_err(file)?;
    let compressed = first == GZIP;
    let whole = Cursor::new(first).chain(source);
    let mut bytes = Vec::new();
    // One byte more than allowed distinguishes a text that is too long from one that just fits.
    let most = limit.saturating_add(1);
    if compressed {
        let broken = |cause: io::Error| {
            let place = "its compressed data are broken or end early, is the file whole?";
            file(io::Error::new(cause.kind(), format!("{place} ({cause})")))
        };
        MultiGzDecoder::new(whole).take(most).read_to_end(&mut bytes).map_err(broken)?;
    } else {
        whole.take(most).read_to_end(&mut bytes).map_err(file)?;
    }
    let refused = |what: String| file(io::Error::new(io::ErrorKind::InvalidData, what));
    if bytes.len() as u64 > limit {
        return Err(refused(format!("it holds more than {limit} bytes of text")));
    }
    String::from_utf8(bytes).map_err(|error| {
        refused(format!("it is no text: byte {} is not UTF-8", error.utf8_error().valid_up_to()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn complaint(bytes: &[u8], limit: u64) -> String {
        read("read the trace", file(bytes).path(), limit).unwrap_err().to_string()
    }

    #[test]
    fn plain_and_compressed_texts_read_alike() {
        for text in ["", "x", "one line\nand another\n"] {
            assert_eq!(read("read", file(text.as_bytes()).path(), 100).unwrap(), text);
            assert_eq!(read("read", file(&gzip(text.as_bytes())).path(), 100).unwrap(), text);
        }
        // Two members one after the other, as `cat a.gz b.gz` makes them.
        let both = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(read("read", file(&both).path(), 100).unwrap(), "one two");
    }

    #[test]
    fn what_is_no_text_or_too_long_is_refused() {
        let folder = read("read the trace", Path::new("/"), 10).unwrap_err().to_string();
        assert!(folder.contains("it is a folder, a file is wanted"), "{folder}");
        assert!(complaint(b"0123456789x", 10).contains("more than 10 bytes"));
        assert!(complaint(&gzip(&[b'x'; 5000]), 10).contains("more than 10 bytes"));
        assert!(complaint(b"ab\xff", 10).contains("byte 2 is not UTF-8"));
        let cut = gzip(b"a text that is long enough to be cut");
        let cut = complaint(&cut[..cut.len() - 12], 100);
        assert!(cut.starts_with("read the trace ") && cut.contains("end early, is the file whole?"), "{cut}");
        assert!(read("read", Path::new("/dev/zero"), 1000).is_err());
        assert!(read("read", Path::new("/nonexistent"), 1000).is_err());
    }
}
