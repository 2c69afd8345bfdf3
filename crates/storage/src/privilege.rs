//! Whether this process has more rights than the process that started it.
#![allow(unsafe_code)]

/// Whether the program gained rights when it was started (set-user-id, file capabilities). Its environment is
/// then untrusted and must not name files to write.
#[must_use]
pub fn has_gained_rights() -> bool {
    // SAFETY: it reads a value that the kernel passed at the start of the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_has_not() {
        assert!(!super::has_gained_rights());
    }
}
