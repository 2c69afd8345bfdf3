//! What can be wrong with a profile.

use foreseek_units::Bytes;

/// A profile that cannot be used. Names the file (or whatever the text came from), the key with its
/// path, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// Neither the name of a built-in profile nor a file.
    #[error("'{given}' is neither a built-in device profile nor a file; built in are: {known}")]
    Unknown {
        /// What was given.
        given: String,
        /// The names that there are.
        known: String,
    },
    /// A file that cannot be read.
    #[error("read the device profile {file}: {reason}")]
    Unreadable {
        /// Its path.
        file: String,
        /// What the system says.
        reason: String,
    },
    /// Not TOML.
    #[error("{file}: line {line}: {reason}")]
    Syntax {
        /// Where the text came from.
        file: String,
        /// Counted from one.
        line: usize,
        /// What the TOML parser says.
        reason: String,
    },
    /// Longer than any profile.
    #[error("{file}: a device profile has at most {limit}, this text has {length}")]
    TooLong {
        /// Where the text came from.
        file: String,
        /// How long it is.
        length: Bytes,
        /// How long it may be.
        limit: Bytes,
    },
    /// A key is missing, unknown, of the wrong type, out of range, or contradicts another.
    #[error("{file}: {key}: {reason}")]
    Key {
        /// Where the text came from.
        file: String,
        /// The key, its tables before it, separated by dots.
        key: String,
        /// What is wrong, and what is right.
        reason: String,
    },
}
