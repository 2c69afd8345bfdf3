//! File names that are made of a path.
//!
//! A path can be longer than a file name may be, and contains slashes; its digest is neither. The digest is
//! the first 128 bits of BLAKE3 of the path's bytes, as 32 hexadecimal digits. BLAKE3 is a specified
//! function: a name means the same to every version of this program. With 128 bits no two paths on one
//! machine share a name.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of the digest in a name.
const BYTES: usize = 16;

/// The name of a path.
pub(crate) fn digest(path: &Path) -> String {
    let digest = blake3::hash(path.as_os_str().as_bytes());
    digest.as_bytes()[..BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_names_of_paths() {
        // The first is the test vector of BLAKE3's specification for empty input.
        assert_eq!(digest(Path::new("")), "af1349b9f5f9a1a6a0404dea36dcc949");
        assert_eq!(digest(Path::new("/data")), "7895b1b41cad9a62ee5e4de2d60e0cb7");
    }
}
