//! The texts of the built-in profiles: one for each device of the papers, and some current ones.

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each.
        pub(crate) const BUILTIN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),*];
    };
}

builtin![
    "ibm-36g-51",
    "ibm-36g-37",
    "seagate-146g",
    "raid0-2x-seagate",
    "raid5-5x-15k",
    "raid5-5x-15k-gap",
    "raid5-5x-15k-plain",
    "barracuda-500g",
    "barracuda-500g-oldfw",
    "wd-500g",
    "seagate-320g",
    "exos-18t",
    "network-volume",
    "object-store",
];

/// The text of a built-in profile.
pub(crate) fn builtin(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
