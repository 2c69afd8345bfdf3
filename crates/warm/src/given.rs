//! Given paths that cannot be taken, and the notes about them.

use crate::trouble::shown;
use rustix::fs::FileType;

/// Given paths that are skipped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Skipped {
    count: u64,
    /// The first of them, and what it is.
    first: Option<String>,
}

impl Skipped {
    pub(crate) fn add(&mut self, path: &[u8], what: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| format!("{} is {what}", shown(path)));
    }

    /// The note about them.
    pub(crate) fn note(&self) -> Option<String> {
        let first = self.first.as_deref()?;
        Some(match self.count {
            1 => format!("{first}: skipped"),
            count => format!("{first}: skipped, and {} more that are no regular files", count - 1),
        })
    }
}

/// What a path names.
/// What files of `/proc` and the like are.
pub(crate) const MADE_UP: &str = "a file made up by the kernel";

pub(crate) fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::BlockDevice | FileType::CharacterDevice => "a device",
        _ => "no regular file",
    }
}

/// The note about a list whose paths seem to be separated by something else.
pub(crate) fn separator_note(list: &[u8], separator: u8) -> Option<String> {
    let has_nul = list.contains(&b'\0');
    match separator {
        b'\0' => (!has_nul && list.contains(&b'\n'))
            .then(|| "no path of the list ends with a NUL byte: leave out -0".to_owned()),
        _ => has_nul.then(|| "the list has NUL bytes: give -0 if its paths end with them".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_skipped_path_is_named_and_the_others_are_counted() {
        let mut skipped = Skipped::default();
        assert_eq!(skipped.note(), None);
        skipped.add(b"p\n", name_of(FileType::Fifo));
        assert_eq!(skipped.note().as_deref(), Some("p\\n is a FIFO: skipped"));
        skipped.add(b"d", name_of(FileType::Directory));
        skipped.add(b"l", name_of(FileType::Symlink));
        let note = skipped.note().expect("a note");
        assert!(note.ends_with("and 2 more that are no regular files"), "{note}");
    }

    #[test]
    fn a_list_with_the_other_separator_is_recognised() {
        for (list, separator, hint) in [
            (&b"a\0b\0"[..], b'\n', Some("give -0")),
            (b"a\nb\n", b'\0', Some("leave out -0")),
            (b"a\nb\n", b'\n', None),
            (b"a\nb\0c\0", b'\0', None),
            (b"a", b'\0', None),
        ] {
            let note = separator_note(list, separator);
            assert_eq!(note.is_some(), hint.is_some(), "{note:?}");
            assert!(note.unwrap_or_default().contains(hint.unwrap_or_default()));
        }
    }
}
