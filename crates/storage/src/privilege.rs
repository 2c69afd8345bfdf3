//! Whether this process has more rights than the process that started it, and whether it may look at others.
#![allow(unsafe_code)]

use rustix::thread::{CapabilitySet, capabilities};

/// Whether the program gained rights when it was started (set-user-id, file capabilities). Its environment is
/// then untrusted and must not name files to write.
#[must_use]
pub fn has_gained_rights() -> bool {
    // SAFETY: it reads a value that the kernel passed at the start of the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether the kernel shows this thread the programs of all users' processes (`/proc/PID/exe`): CAP_SYS_PTRACE.
#[must_use]
pub fn sees_all_programs() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_PTRACE))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_has_not() {
        assert!(!super::has_gained_rights());
    }
}
