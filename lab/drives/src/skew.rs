//! The unit of a layout's skews.

use super::block::Reader;
use super::error::ExtractedError;

/// Whether skews are given in parts of a revolution; sectors otherwise.
pub(super) fn in_revolutions(reader: Reader<'_>, default: bool) -> Result<bool, ExtractedError> {
    match reader.text_if("Skew units")? {
        None => Ok(default),
        Some("sectors") => Ok(false),
        Some("revolutions") => Ok(true),
        Some(other) => {
            Err(reader.wrong("Skew units", format!("is '{other}', must be 'sectors' or 'revolutions'")))
        }
    }
}
