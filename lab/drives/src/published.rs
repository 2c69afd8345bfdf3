//! What was published of drives' controllers, one file a drive, and how such a file is read.
//!
//! The files hold what DIXtrac and its forerunners extracted from the drives themselves, as the DiskSim 4.0
//! distribution publishes it beside the `.model` files. Nothing in them was fitted to a trace. A drive is
//! identified by its name in the `.model` file.

use super::controller::Controller;
use foreseek_device::ProfileError;
use foreseek_device::spec::limits::{
    BUFFER_SECTORS_LIMIT, LONGEST_MS, ROTATION_RPM, SECTORS_PER_TRACK_LIMIT, SEGMENTS_LIMIT,
};
use foreseek_device::spec::{ControllerSpec, Keys, bounds, table_of};

macro_rules! published {
    ($($name:literal),* $(,)?) => {
        /// The text of each file.
        const PUBLISHED: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../controllers/", $name, ".toml")))),*];
    };
}

published![
    "dec-rz26",
    "hp-c2247a",
    "hp-c2490a",
    "hp-c3323a",
    "ibm-dnes-309170w",
    "quantum-qm39100td-sw",
    "quantum-tornado",
    "seagate-st32171w",
    "seagate-st34501n",
    "seagate-st39102lw",
    "seagate-st41601n",
];

impl Controller {
    /// What was published of the controller of the drive of that name.
    #[must_use]
    pub fn published(drive: &str) -> Option<Self> {
        // A test reads each of them.
        all().find(|one| one.drive.eq_ignore_ascii_case(drive)).map(|one| one.controller)
    }

    /// Reads a controller's description in TOML, such as those in `lab/drives/controllers`. `file` names the
    /// text in errors.
    ///
    /// # Errors
    /// Text that is not TOML, a key that is missing, unknown, of the wrong type or out of range.
    pub fn parse_toml(file: &str, text: &str) -> Result<Self, ProfileError> {
        read(file, text).map(|one| one.controller)
    }
}

/// All that is published.
pub(super) fn all() -> impl Iterator<Item = Published> {
    PUBLISHED.iter().filter_map(|(name, text)| read(name, text).ok())
}

/// What is published of a drive.
pub(super) struct Published {
    pub(super) drive: String,
    /// Where the file states them: the rotational speed, and the sectors of the outermost tracks.
    pub(super) rotation_rpm: Option<f64>,
    pub(super) outer_track_sectors: Option<u64>,
    pub(super) controller: Controller,
}

fn read(file: &str, text: &str) -> Result<Published, ProfileError> {
    let table = table_of(file, text)?;
    let mut keys = Keys::new(file, &table);
    let drive = keys.text("drive")?.to_owned();
    let times = bounds(0.0, LONGEST_MS);
    let controller = Controller {
        source: format!("{} ({drive})", keys.text("source")?),
        bus_sector_ms: keys.number("bus_sector_ms", bounds(1e-6, LONGEST_MS))?,
        segments: keys.whole("cache_segments", bounds(0, SEGMENTS_LIMIT))?,
        segment_sectors: keys.whole("cache_segment_sectors", bounds(0, BUFFER_SECTORS_LIMIT))?,
        zero_latency: keys.truth_or("zero_latency", false)?,
        spec: ControllerSpec::read(
            keys.table("controller")?,
            keys.number_if("command_overhead_ms", times)?.unwrap_or(0.0),
        )?,
    };
    let rotation_rpm = keys.number_if("rotation_rpm", bounds(ROTATION_RPM.0, ROTATION_RPM.1))?;
    let outer_track_sectors = keys.whole_if("outer_track_sectors", bounds(4, SECTORS_PER_TRACK_LIMIT))?;
    keys.finish()?;
    Ok(Published { drive, rotation_rpm, outer_track_sectors, controller })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_and_found_by_its_drive() {
        for (name, text) in PUBLISHED {
            let Published { drive, controller, rotation_rpm, outer_track_sectors } =
                read(name, text).unwrap_or_else(|error| panic!("{error}"));
            assert!(rotation_rpm.is_some() && outer_track_sectors.is_some(), "{name}");
            let found = Controller::published(&drive.to_lowercase()).expect("its name is known");
            assert_eq!(found, controller, "{name}");
            assert_eq!(drive.to_lowercase().replace('_', "-"), *name);
        }
        assert_eq!(Controller::published("none-such"), None);
    }

    #[test]
    fn a_file_of_ones_own_is_checked() {
        let (name, text) = PUBLISHED[0];
        assert!(Controller::parse_toml(name, text).is_ok());
        let wrong = text.replace("cache_segments = 10", "cache_segments = -1");
        let error = Controller::parse_toml("own.toml", &wrong).expect_err("negative").to_string();
        assert!(error.starts_with("own.toml: cache_segments: "), "{error}");
    }
}
