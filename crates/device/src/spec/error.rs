//! Errors of profiles.

use foreseek_units::Bytes;

/// A profile that cannot be used. Names the file (or another source of the text), the key with its path, and
/// the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// Neither the name of a built-in profile nor a file.
    #[error("'{given}' is neither a built-in device profile nor a file; built in are: {known}")]
    Unknown {
        /// The name that was given.
        given: String,
        /// The known names.
        known: String,
    },
    /// A file that cannot be read.
    #[error("cannot read the device profile {file}: {reason}")]
    Unreadable {
        /// Its path.
        file: String,
        /// The system's error.
        reason: String,
    },
    /// Not TOML.
    #[error("{file}: line {line}: {reason}")]
    Syntax {
        /// The source of the text.
        file: String,
        /// Counted from one.
        line: usize,
        /// The TOML parser's error.
        reason: String,
    },
    /// Longer than any profile.
    #[error("{file}: a device profile has at most {limit}, this text has {length}")]
    TooLong {
        /// The source of the text.
        file: String,
        /// Its length.
        length: Bytes,
        /// The longest permitted.
        limit: Bytes,
    },
    /// A key is missing, unknown, of the wrong type, out of range, or contradicts another.
    #[error("{file}: {key}: {reason}")]
    Key {
        /// The source of the text.
        file: String,
        /// The key, its tables before it, separated by dots.
        key: String,
        /// What is wrong, and what is right.
        reason: String,
    },
}
