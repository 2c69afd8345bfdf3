//! Whether this process has more rights than whoever started it.
#![allow(unsafe_code)]

/// Whether the program gained rights when it was started (set-user-id, file capabilities). Then its
/// environment is somebody else's wish and must not name files to write.
#[must_use]
pub fn has_gained_rights() -> bool {
    // SAFETY: reads what the kernel handed over at the start of the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_has_not() {
        assert!(!super::has_gained_rights());
    }
}
