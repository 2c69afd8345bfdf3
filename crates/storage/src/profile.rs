//! Device profiles by name or from a file.

use crate::Error;
use foreseek_device::Profile;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// How much of a profile file is read. Profiles take a few kilobytes; this keeps a wrong path (a
/// device, a database) from being read whole before the parser refuses it.
const LENGTH_LIMIT: u64 = 1 << 20;

/// The built-in profile of that name, else the one in that TOML file.
///
/// # Errors
/// Neither a built-in name nor a readable file (the message lists the names), or a file that is no
/// valid profile (the message names file, key and reason).
pub fn load(name_or_path: &str) -> Result<Profile, Error> {
    if let Some(profile) = Profile::builtin(name_or_path) {
        return Ok(profile);
    }
    let path = Path::new(name_or_path);
    let text = read(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => Error::UnknownProfile {
            given: name_or_path.to_owned(),
            known: Profile::builtin_names().collect::<Vec<_>>().join(", "),
        },
        _ => Error::File { operation: "read the device profile", path: path.to_owned(), cause },
    })?;
    Ok(Profile::parse(name_or_path, &text)?)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LENGTH_LIMIT).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_file_of_the_same_text_give_the_same_profile() {
        let name = Profile::builtin_names().next().unwrap();
        let built_in = load(name).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), built_in.to_toml()).unwrap();
        let from_file = load(file.path().to_str().unwrap()).unwrap();
        assert_eq!(from_file.to_toml(), built_in.to_toml());
    }

    #[test]
    fn what_is_neither_lists_the_names_that_are() {
        let error = load("barracuda-5000g").unwrap_err().to_string();
        assert!(error.contains("'barracuda-5000g'"), "{error}");
        for name in Profile::builtin_names() {
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_profile_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "name = \"x\"\nnonsense = 1\n").unwrap();
        let path = file.path().to_str().unwrap();
        assert!(load(path).unwrap_err().to_string().contains(path));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert!(load(path).unwrap_err().to_string().contains(path));
        // Without an end and no text: refused, not read for ever.
        assert!(load("/dev/zero").is_err());
    }
}
