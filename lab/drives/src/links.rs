//! The files that a drive's description names.

use super::block::{Block, Reader, Value, parse};
use super::error::ExtractedError;

/// Most files that one description may name: a layout, a mechanical model, a seek curve, and as many
/// again for tools that split them further.
pub const LINKS_LIMIT: usize = 6;

/// Files that are named by others.
pub(super) struct Links<'a> {
    left: usize,
    linked: &'a mut dyn FnMut(&str) -> Result<String, String>,
}

impl<'a> Links<'a> {
    /// Reads files by `linked`, as many as may be named.
    pub(super) fn new(linked: &'a mut dyn FnMut(&str) -> Result<String, String>) -> Self {
        Self { left: LINKS_LIMIT, linked }
    }

    /// The text of a file that `key` names.
    pub(super) fn text(&mut self, from: Reader<'_>, key: &str, name: &str) -> Result<String, ExtractedError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(
                from.wrong(key, format!("names '{name}', but more than {LINKS_LIMIT} files are named"))
            );
        };
        self.left = left;
        (self.linked)(name)
            .map_err(|why| from.wrong(key, format!("names '{name}', which cannot be read: {why}")))
    }

    /// A block, in place or in a file of its own: `key = source FILE`.
    pub(super) fn block(&mut self, reader: Reader<'_>, key: &str) -> Result<(String, Block), ExtractedError> {
        let name = match reader.get(key).map(|node| &node.value) {
            Some(Value::Text(text)) => text.strip_prefix("source").map(str::trim),
            _ => None,
        };
        let Some(name) = name else {
            return Ok((reader.file.to_owned(), reader.inner(key)?.block.clone()));
        };
        let text = self.text(reader, key, name)?;
        match parse(name, &text)?.into_iter().next() {
            Some(block) => Ok((name.to_owned(), block)),
            None => Err(reader.wrong(key, format!("names '{name}', which holds no block"))),
        }
    }
}
