//! The profiles that come with the program: one for each device of the papers, and some of today.

use super::Profile;

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each.
        const BUILTIN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),*];
    };
}

builtin!["barracuda-500g"];

impl Profile {
    /// The built-in profile of a name.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        // A test reads each of them.
        Self::builtin_text(name).and_then(|text| Self::parse(name, text).ok())
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
