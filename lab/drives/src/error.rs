//! What can be wrong with a file that describes an extracted drive.

use foreseek_device::ProfileError;
use foreseek_units::Bytes;

/// A file that cannot be used. Names the file, the line, the key and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractedError {
    /// The text does not follow the format.
    #[error("{file}: line {line}: {reason}")]
    Syntax {
        /// Where the text came from.
        file: String,
        /// Counted from one.
        line: usize,
        /// What was found and what was expected.
        reason: String,
    },
    /// A key is missing, of the wrong type, out of range, or contradicts another.
    #[error("{file}: line {line}: {key}: {reason}")]
    Key {
        /// Where the text came from.
        file: String,
        /// Where the key or, if it is missing, its block stands; counted from one.
        line: usize,
        /// The key as the file writes it.
        key: String,
        /// What is wrong, and what is right.
        reason: String,
    },
    /// Longer than any such file.
    #[error("{file}: this text has {length}, a drive's description has at most {limit}")]
    TooLong {
        /// Where the text came from.
        file: String,
        /// How long it is.
        length: Bytes,
        /// How long it may be.
        limit: Bytes,
    },
    /// The parts together make no valid device.
    #[error("{file}: the drive does not make a valid device profile: {cause}")]
    Profile {
        /// The model file.
        file: String,
        /// What the profile's check says.
        #[source]
        cause: Box<ProfileError>,
    },
}
