//! Failed system calls: the operation, its object, the cause, and the remedy where it is known.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf, absolute};

/// A call that failed.
#[derive(Debug)]
pub struct CallError {
    /// The operation.
    pub operation: &'static str,
    /// Its object.
    pub object: String,
    /// The kernel's error. Part of the message, which is also sent as text: no `source`.
    pub cause: io::Error,
}

impl CallError {
    /// This error; where root privileges are missing, the error that `what` requires them.
    pub fn or_not_root<E: From<Self> + From<NotRoot>>(self, what: &'static str) -> E {
        if self.lacks_root() { NotRoot(what).into() } else { self.into() }
    }

    fn lacks_root(&self) -> bool {
        self.cause.kind() == ErrorKind::PermissionDenied && NotRoot::check("").is_err()
    }
}

/// An operation that only root may do, in a process without root privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {0}: root privileges required (run as root or with sudo)")]
pub struct NotRoot(pub &'static str);

impl NotRoot {
    /// Refuses to do `what` without root privileges.
    ///
    /// # Errors
    /// [`NotRoot`].
    pub fn check(what: &'static str) -> Result<(), Self> {
        if rustix::process::geteuid().is_root() { Ok(()) } else { Err(Self(what)) }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, object, cause } = self;
        write!(f, "cannot {operation} {object}: {cause}")?;
        match cause.kind() {
            _ if self.lacks_root() => f.write_str("; root privileges required (run as root or with sudo)"),
            ErrorKind::StorageFull => f.write_str("; free space there"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for CallError {}

/// Adds the operation and its object to an I/O error.
pub trait Context<T> {
    /// Adds the operation and the path to an error.
    ///
    /// # Errors
    /// The same error, with both.
    fn context(self, operation: &'static str, object: impl AsRef<Path>) -> Result<T, CallError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, operation: &'static str, object: impl AsRef<Path>) -> Result<T, CallError> {
        self.map_err(|cause| CallError {
            operation,
            object: object.as_ref().display().to_string(),
            cause: cause.into(),
        })
    }
}

/// The absolute path of a file that a server's settings name: the server has another working directory.
///
/// # Errors
/// The path is not UTF-8: settings and records are JSON. Or the working directory is gone.
pub fn absolute_path(path: &Path) -> Result<PathBuf, CallError> {
    let absolute = absolute(path).context("find", path)?;
    if absolute.to_str().is_some() {
        return Ok(absolute);
    }
    let why = "the path is not UTF-8, and servers are given UTF-8 only: rename it";
    Err(CallError {
        operation: "use",
        object: absolute.as_os_str().as_encoded_bytes().escape_ascii().to_string(),
        cause: io::Error::new(ErrorKind::InvalidInput, why),
    })
}

/// Ignores the error that something does not exist.
///
/// # Errors
/// Any other.
pub fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_utf8_is_refused_with_its_bytes() {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/m/b\xff"));
        let said = absolute_path(path).expect_err("no UTF-8").to_string();
        assert_eq!(
            said,
            "cannot use /m/b\\xff: the path is not UTF-8, and servers are given UTF-8 only: rename it"
        );
        assert_eq!(absolute_path(Path::new("/m/\u{e9}")).expect("UTF-8"), Path::new("/m/\u{e9}"));
    }

    #[test]
    fn a_message_names_operation_object_cause_and_remedy() {
        let full = Err::<(), _>(io::Error::from(ErrorKind::StorageFull)).context("write", "/a/b");
        let said = full.expect_err("it is full").to_string();
        assert_eq!(said, "cannot write /a/b: no storage space; free space there");
        let gone = Err::<(), _>(io::Error::from(ErrorKind::NotFound)).context("open", "/a");
        assert_eq!(gone.expect_err("it is gone").to_string(), "cannot open /a: entity not found");
        assert_eq!(
            NotRoot("list mounts").to_string(),
            "cannot list mounts: root privileges required (run as root or with sudo)"
        );
    }
}
