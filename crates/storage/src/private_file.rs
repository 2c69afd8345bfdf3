//! Files for their owner alone.

use std::fs::File;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A new file that only its owner may read. One of that name is removed: it may be another user's, or a link.
///
/// # Errors
/// The kernel's reason.
pub fn create_private(path: &Path) -> Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_new_file_replaces_a_link_and_is_for_its_owner_alone() {
        let place = tempfile::tempdir().expect("a place");
        let [other, path] = ["other", "file"].map(|name| place.path().join(name));
        fs::write(&other, "kept").expect("written");
        symlink(&other, &path).expect("linked");
        drop(create_private(&path).expect("made"));
        assert_eq!(fs::read_to_string(&other).expect("there"), "kept");
        let made = fs::symlink_metadata(&path).expect("there");
        assert!(made.is_file() && made.permissions().mode() & 0o777 == 0o600, "{made:?}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
        drop(create_private(&path).expect("made again"));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert!(create_private(place.path()).is_err(), "a directory is kept");
    }
}
