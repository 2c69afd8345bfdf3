//! Files of the data set as readers open them.

use crate::data;
use foreseek_simulate::program::FileSpec;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// An open file that can check what it reads.
#[derive(Debug)]
pub(super) struct Checked {
    number: u32,
    file: File,
}

impl Checked {
    pub(super) fn open(folder: &Path, number: u32, files: &[FileSpec]) -> Result<Self, String> {
        let spec = files.get(number as usize).ok_or_else(|| format!("there is no file {number}"))?;
        let path = folder.join(data::path(number, spec.directory));
        let file = File::open(&path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        Ok(Self { number, file })
    }

    /// Fills the buffer from an offset of the file.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), String> {
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| format!("cannot read file {} at {offset}: {error}", self.number))
    }

    /// The same, and checks that it is what was written there.
    pub(super) fn read_checked(&self, offset: u64, buffer: &mut [u8]) -> Result<(), String> {
        self.read(offset, buffer)?;
        match data::wrong_page(self.number, offset, buffer) {
            None => Ok(()),
            Some(page) => Err(format!("page {page} of file {} does not hold what was written", self.number)),
        }
    }
}

/// Every file's path and length.
pub(super) fn paths<'a>(
    folder: &'a Path,
    files: &'a [FileSpec],
) -> impl Iterator<Item = (PathBuf, u64)> + 'a {
    let of = |(number, spec): (usize, &FileSpec)| {
        (folder.join(data::path(number as u32, spec.directory)), spec.length.get())
    };
    files.iter().enumerate().map(of)
}
