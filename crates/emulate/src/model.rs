//! The modelled device that the options ask for.

use crate::clock::SCALES;
use crate::{AttachOptions, Error, NO_PROFILE, Queue};
use foreseek_device::{Build, Device};
use foreseek_units::Bytes;

/// Makes the device; `None` for [`NO_PROFILE`].
pub(crate) fn build(options: &AttachOptions, size: Bytes) -> Result<Option<Box<dyn Device>>, Error> {
    if options.profile == NO_PROFILE {
        return Ok(None);
    }
    let profile = foreseek_storage::profile::load(&options.profile)
        .map_err(|error| Error::Refused(error.to_string()))?;
    let build = Build {
        size: Some(size),
        fit: options.fit,
        queue: match options.queue {
            Queue::Sptf => foreseek_device::Queue::Sptf,
            Queue::Fifo => foreseek_device::Queue::Fifo,
        },
        queue_depth: options.queue_depth,
        ..Build::default()
    };
    profile.build(&build).map(Some).map_err(|error| Error::Refused(error.to_string()))
}

/// Checks a factor on modelled time.
pub(crate) fn check_scale(scale: f64) -> Result<f64, Error> {
    if SCALES.contains(&scale) {
        return Ok(scale);
    }
    Err(Error::Invalid {
        option: "--time-scale",
        value: scale.to_string(),
        reason: format!("give a number from {} to {}", SCALES.start(), SCALES.end()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sound_factors_are_taken() {
        for scale in [0.001, 0.25, 1.0, 100.0] {
            assert_eq!(check_scale(scale).ok(), Some(scale));
        }
        for scale in [0.0, -1.0, 0.0001, 100.1, f64::NAN, f64::INFINITY] {
            let error = check_scale(scale).expect_err("refused").to_string();
            assert!(error.contains("0.001 to 100"), "{error}");
        }
    }
}
