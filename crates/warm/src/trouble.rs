//! Read errors: their number, and the first of them by name.

use rustix::io::Errno;

/// How many are named: as many as a screen shows.
const NAMED: usize = 20;

/// Skipped files and directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadErrors {
    /// How many.
    pub count: u64,
    /// The first of them: the operation, the path and the cause.
    pub first: Vec<String>,
}

impl ReadErrors {
    pub(crate) fn add(&mut self, operation: &str, path: &[u8], cause: Errno) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(format!("cannot {operation} {}: {cause}", shown(path)));
        }
    }

    /// Adds the errors of another list.
    pub(crate) fn absorb(&mut self, others: Self) {
        self.count += others.count;
        self.first.extend(others.first);
        self.first.truncate(NAMED);
    }
}

/// Whether the cause shows that a file is gone or was replaced: no program finds it any more.
pub(crate) fn is_gone(cause: Errno) -> bool {
    matches!(cause, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::STALE)
}

/// A path as one line of text, for any bytes.
#[must_use]
pub fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path)
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_debug().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_bytes_becomes_one_line() {
        assert_eq!(shown(b"a \"b\"/\xff\nc"), "a \"b\"/\u{fffd}\\nc");
        let mut errors = ReadErrors::default();
        for _ in 0..NAMED + 5 {
            errors.add("open", b"x", Errno::ACCESS);
        }
        assert_eq!((errors.count, errors.first.len()), (NAMED as u64 + 5, NAMED));
        assert!(errors.first[0].starts_with("cannot open x: "));
    }
}
