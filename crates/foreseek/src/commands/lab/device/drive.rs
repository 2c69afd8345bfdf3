//! A drive's files: the model, what it names beside it, and where its controller is described.

use crate::text;
use foreseek_device::Profile;
use foreseek_drives::{Controller, Drive};
use std::path::{Path, PathBuf};

/// Longest file of a drive's description: a list of all extents is the longest.
const TEXT_LIMIT: u64 = 32 << 20;
/// The word for what is assumed of a controller of which nothing is known.
const TYPICAL: &str = "typical";

/// The options that name a drive.
#[derive(Debug, clap::Args)]
pub(super) struct Source {
    /// The controller's times, which a .model file does not have: a .diskspecs or TOML file, or 'typical' for the
    /// medians of what was published of other drives of its maker or generation. Without this: the .diskspecs file
    /// beside the model, else what was published of the drive, else 'typical'.
    #[arg(long, value_name = "FILE|typical")]
    controller: Option<String>,

    /// The time to settle on a track anew, which no file has, as a share of the shortest seek: 0 to 1. Without this: a
    /// half.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    resettle_share: Option<f64>,
}

/// A share of the shortest seek.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "give a number from 0 to 1".to_owned())
}

/// A drive, read and made a profile.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) profile: Profile,
    /// Where the controller's times come from.
    pub(super) controller: String,
    pub(super) notes: Vec<String>,
}

impl Source {
    /// Reads the model and all that belongs to it.
    pub(super) fn load(&self, model: &Path) -> anyhow::Result<Loaded> {
        let text = text::read("cannot read the drive's model", model, TEXT_LIMIT)?;
        let folder = model.parent().unwrap_or(Path::new(""));
        let mut linked = |name: &str| {
            let path = folder.join(name);
            text::read("cannot read", &path, TEXT_LIMIT).map_err(|error| error.to_string())
        };
        let drive = Drive::parse(&model.display().to_string(), &text, &mut linked)?;
        let drive = match self.resettle_share {
            Some(share) => drive.with_resettle_share(share),
            None => drive,
        };
        let (controller, mut notes) = self.controller(model, &drive)?;
        let (profile, more) = drive.profile(&controller)?;
        notes.extend(more);
        Ok(Loaded { profile, controller: controller.source().to_owned(), notes })
    }

    fn controller(&self, model: &Path, drive: &Drive) -> anyhow::Result<(Controller, Vec<String>)> {
        let beside = model.with_extension("diskspecs");
        let file = match self.controller.as_deref() {
            Some(TYPICAL) => return Ok((Controller::typical_of(drive), Vec::new())),
            Some(file) => Some(PathBuf::from(file)),
            None => beside.exists().then_some(beside),
        };
        if let Some(file) = file {
            let text = text::read("cannot read the controller's description", &file, TEXT_LIMIT)?;
            let name = file.display().to_string();
            let toml = file.extension().is_some_and(|extension| extension == "toml");
            let controller =
                if toml { Controller::parse_toml(&name, &text)? } else { Controller::parse(&name, &text)? };
            return Ok((controller, Vec::new()));
        }
        if let Some(controller) = Controller::published(drive.name()) {
            return Ok((controller, Vec::new()));
        }
        let note = format!(
            "nothing is known of the controller of '{}': its overheads, cache and bus are assumed, so that response \
             times may be some tenths of a millisecond off and a cache that does otherwise more; --controller names \
             a file that tells them",
            drive.name()
        );
        Ok((Controller::typical_of(drive), vec![note]))
    }
}
