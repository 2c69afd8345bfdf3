//! The profiles that come with the program: one for each device of the papers, and some of today.

use super::Profile;
use super::error::ProfileError;
use std::io;
use std::path::Path;

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each.
        const BUILTIN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),*];
    };
}

builtin![
    "ibm-36g-51",
    "ibm-36g-37",
    "seagate-146g",
    "raid0-2x-seagate",
    "raid5-5x-15k",
    "barracuda-500g",
    "barracuda-500g-oldfw",
    "wd-500g",
    "seagate-320g",
    "exos-18t",
    "network-volume",
    "object-store",
];

impl Profile {
    /// The built-in profile of a name.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        // A test reads each of them.
        Self::builtin_text(name).and_then(|text| Self::parse(name, text).ok())
    }

    /// The built-in profile of that name, else the one in that TOML file: `read` answers the file's
    /// text, of one too long for a profile as much as it likes.
    ///
    /// # Errors
    /// Neither a built-in name nor a readable file (the message lists the names), or a file that is no
    /// valid profile (the message names file, key and reason).
    pub fn load(
        name_or_path: &str,
        read: impl FnOnce(&Path) -> io::Result<String>,
    ) -> Result<Self, ProfileError> {
        if let Some(profile) = Self::builtin(name_or_path) {
            return Ok(profile);
        }
        let text = read(Path::new(name_or_path)).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => ProfileError::Unknown {
                given: name_or_path.to_owned(),
                known: Self::builtin_names().collect::<Vec<_>>().join(", "),
            },
            _ => ProfileError::Unreadable { file: name_or_path.to_owned(), reason: cause.to_string() },
        })?;
        Self::parse(name_or_path, &text)
    }

    /// The text of a built-in profile, with the source of each number in a comment.
    #[must_use]
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// The names of the built-in profiles.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(name: &str) -> Profile {
        let text = Profile::builtin_text(name).expect("a built-in name");
        Profile::parse(name, text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn each_is_read_and_bears_its_name() {
        for name in Profile::builtin_names() {
            let profile = profile(name);
            assert_eq!(profile.name(), name);
            assert!(!profile.description().is_empty() && !profile.source().is_empty(), "{name}");
        }
        assert!(Profile::builtin("none-such").is_none());
    }

    /// TR-840 section 3: 540 KB; EuroSys'07 section 5: 393, 446 and 646 KB. A KB has 1000 bytes.
    #[test]
    fn the_papers_competitive_depths() {
        for (name, kilobytes) in [
            ("ibm-36g-51", 540.0),
            ("ibm-36g-37", 393.0),
            ("seagate-146g", 446.0),
            ("raid0-2x-seagate", 646.0),
        ] {
            let depth = profile(name).competitive_depth().get() as f64 / 1000.0;
            assert!((depth - kilobytes).abs() <= 1.0, "{name}: {depth} KB");
        }
    }

    #[test]
    fn the_modelled_seek_is_the_stated_average() {
        for name in Profile::builtin_names() {
            let profile = profile(name);
            let (Some(modelled), Some(stated)) = (profile.modelled_seek(), profile.average_seek()) else {
                continue;
            };
            let ratio = modelled.as_millis_f64() / stated.as_millis_f64();
            assert!((ratio - 1.0).abs() < 0.01, "{name}: {modelled} instead of {stated}");
        }
    }

    #[test]
    fn each_number_has_its_source_beside_it() {
        for (name, text) in BUILTIN {
            for line in text.lines().filter(|line| line.contains('=') && !line.starts_with('#')) {
                let named = ["name", "kind", "description", "source"];
                let key = line.split(" =").next().unwrap_or_default();
                assert!(named.contains(&key) || line.contains(" # "), "{name}: {line}");
            }
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        for name in Profile::builtin_names() {
            let text = profile(name).to_toml();
            let again = Profile::parse("written", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(again.to_toml(), text);
            assert_eq!(again.competitive_depth(), profile(name).competitive_depth());
            assert_eq!(again.capacity(), profile(name).capacity());
        }
    }

    #[test]
    fn a_name_and_a_file_of_the_same_text_give_the_same_profile() {
        let name = Profile::builtin_names().next().expect("a profile");
        let built_in = Profile::load(name, |_| panic!("needs no file")).expect("built in");
        let from_file = Profile::load("disk.toml", |_| Ok(built_in.to_toml())).expect("a profile");
        assert_eq!(from_file.to_toml(), built_in.to_toml());
    }

    #[test]
    fn what_is_neither_lists_the_names_that_are() {
        let gone = |_: &Path| Err(io::ErrorKind::NotFound.into());
        let error = Profile::load("barracuda-5000g", gone).expect_err("neither").to_string();
        assert!(error.contains("'barracuda-5000g'"), "{error}");
        for name in Profile::builtin_names() {
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_profile_is_named() {
        let nonsense = |_: &Path| Ok("name = \"x\"\nnonsense = 1\n".to_owned());
        assert!(Profile::load("d.toml", nonsense).expect_err("nonsense").to_string().contains("d.toml"));
        let folder = |_: &Path| Err(io::ErrorKind::IsADirectory.into());
        let error = Profile::load("/etc", folder).expect_err("a folder").to_string();
        assert_eq!(error, "read the device profile /etc: is a directory");
    }

    #[test]
    fn infill_pays_up_to_32_kib_on_the_old_firmware_and_hardly_on_the_new() {
        assert_eq!(profile("barracuda-500g-oldfw").infill().get(), 32 << 10);
        assert_eq!(profile("barracuda-500g").infill().get(), 8 << 10);
    }
}
