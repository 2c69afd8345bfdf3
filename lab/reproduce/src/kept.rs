//! Results of the parts of a long run, kept as soon as a part ends: the same run goes on where it stopped.
//!
//! A part is kept with what made it: the program, by the hash of its file, and the options. Experiments and claims
//! are built into the program. What something else made is an error: it is neither taken over nor overwritten.

use crate::{Error, Options};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of kept parts.
pub(crate) struct Kept {
    folder: PathBuf,
    program: String,
}

/// Keys of a file.
const MADE_BY: &str = "made_by";
const CLAIMS: &str = "claims";

impl Kept {
    /// A folder, which is made if there is none.
    pub(crate) fn at(folder: PathBuf) -> Result<Self, Error> {
        let program = std::env::current_exe().and_then(fs::read).map_err(|error| Error::Kept {
            file: folder.clone(),
            reason: format!("this program: {error}"),
        })?;
        fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
        Ok(Self { folder, program: blake3::hash(&program).to_hex().to_string() })
    }

    /// The claims of a part, if it has ended.
    ///
    /// # Errors
    /// Something else made them, or they cannot be read.
    pub(crate) fn read(&self, part: &str, options: &Options) -> Result<Option<Value>, Error> {
        let file = self.file(part);
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| failed(&file, error))?,
        };
        let mut kept: Value = serde_json::from_str(&text).map_err(|error| failed(&file, error))?;
        let of = |key: &str| (self.made_by(options)[key] != kept[MADE_BY][key]).then(|| key.to_owned());
        let differ: Vec<String> =
            ["program", "only", "quick", "seed", "set"].into_iter().filter_map(of).collect();
        match differ.is_empty() {
            true => Ok(Some(kept[CLAIMS].take())),
            false => Err(failed(&file, format!("made with other {}", differ.join(", ")))),
        }
    }

    /// Keeps a part's claims.
    ///
    /// # Errors
    /// They cannot be written.
    pub(crate) fn write(&self, part: &str, options: &Options, claims: &Value) -> Result<(), Error> {
        let file = self.file(part);
        let text = format!("{:#}\n", json!({ MADE_BY: self.made_by(options), CLAIMS: claims }));
        // Under its name it is whole.
        let begun = file.with_extension("begun");
        fs::write(&begun, text).and_then(|()| fs::rename(&begun, &file)).map_err(|error| failed(&file, error))
    }

    fn made_by(&self, options: &Options) -> Value {
        let Options { only, quick, seed, set, workers: _ } = options;
        json!({ "program": self.program, "only": only, "quick": quick, "seed": seed, "set": set.to_string() })
    }

    fn file(&self, part: &str) -> PathBuf {
        self.folder.join(format!("{}.json", file_name(part)))
    }
}

/// A part's name as a file's: letters, digits and hyphens.
pub(crate) fn file_name(part: &str) -> String {
    part.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}

fn failed(file: &Path, reason: impl std::fmt::Display) -> Error {
    Error::Kept { file: file.to_owned(), reason: reason.to_string() }
}
