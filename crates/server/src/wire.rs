//! Messages as lines of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, Read, Write};

/// The longest line that either side accepts: a `Set` of a few thousand failing ranges.
const LINE_LIMIT: u64 = 1 << 20;

/// A message as one line.
pub(crate) fn line_of(what: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes one line.
pub(crate) fn write_message(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    to.write_all(&line_of(what)?)
}

/// Reads one line. An end of file before the end of the line is an `UnexpectedEof`; a line that is too long
/// or of another type is `InvalidData`.
pub(crate) fn read_message<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<T> {
    let mut line = String::new();
    from.take(LINE_LIMIT).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(if line.len() as u64 >= LINE_LIMIT {
            io::Error::new(io::ErrorKind::InvalidData, "the line is too long")
        } else {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the line ends too early")
        });
    }
    serde_json::from_str(&line).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_not_read_for_ever() {
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        assert_eq!(read_message::<u32>(&mut endless).expect_err("no end").kind(), io::ErrorKind::InvalidData);
    }
}
