//! Choices that have names on the command line.

use crate::{Error, Result};

/// The choice of this name. `what` says what all of them are: "a way to run a job".
///
/// # Errors
/// None has this name; the message lists the names.
pub(crate) fn by_name<T: Copy, const CHOICES: usize>(
    name: &str,
    all: [T; CHOICES],
    name_of: fn(T) -> &'static str,
    what: &str,
) -> Result<T> {
    all.into_iter().find(|choice| name_of(*choice) == name).ok_or_else(|| {
        let known = all.map(name_of).join(", ");
        Error::Option { what: format!("'{name}' is not {what}: {known}") }
    })
}
