//! Builds the modelled device that the options name.

use crate::clock::SCALES;
use crate::{AttachOptions, DEFAULT_QUEUE_DEPTH, Error, NO_PROFILE, QueueOrder};
use foreseek_device::{Build, Device, Profile};
use foreseek_storage::read_text;
use foreseek_units::Bytes;

/// Makes the device; `None` for [`NO_PROFILE`].
pub(crate) fn build(options: &AttachOptions, size: Bytes) -> Result<Option<Box<dyn Device>>, Error> {
    if options.profile == NO_PROFILE {
        return match options.failed_member {
            None => Ok(None),
            Some(member) => Err(Error::Invalid {
                option: "--failed-member",
                value: member.to_string(),
                reason: format!("'--profile {NO_PROFILE}' has no members: give the profile of an array"),
            }),
        };
    }
    let profile =
        Profile::load(&options.profile, read_text).map_err(|error| Error::Refused(error.to_string()))?;
    let build = Build {
        size: Some(size),
        fit: options.fit,
        queue: match options.queue {
            QueueOrder::Sptf => foreseek_device::Queue::Sptf,
            QueueOrder::Fifo => foreseek_device::Queue::Fifo,
        },
        queue_depth: options.queue_depth,
        failed_member: options.failed_member,
        ..Build::default()
    };
    profile.build(&build).map(Some).map_err(|error| Error::Refused(error.to_string()))
}

/// The options that have no effect because there is no model.
pub(crate) fn without_effect(options: &AttachOptions) -> Option<String> {
    let asked = [
        ("--time-scale", options.time_scale != 1.0),
        ("--fit", options.fit),
        ("--queue", options.queue != QueueOrder::default()),
        ("--queue-depth", options.queue_depth != DEFAULT_QUEUE_DEPTH),
    ];
    let asked: Vec<_> = asked.into_iter().filter(|(_, given)| *given).map(|(option, _)| option).collect();
    let idle = options.profile == NO_PROFILE && !asked.is_empty();
    idle.then(|| format!("{}: no effect with '--profile {NO_PROFILE}'", asked.join(", ")))
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
    fn what_has_no_effect_without_a_model_is_named() {
        let plain = AttachOptions::new(NO_PROFILE, Bytes::gib(1));
        assert_eq!(without_effect(&plain), None);
        let asked = AttachOptions { fit: true, time_scale: 0.5, ..plain };
        let said = without_effect(&asked).expect("two options");
        assert!(said.starts_with("--time-scale, --fit: no effect"), "{said}");
        assert_eq!(without_effect(&AttachOptions { profile: "wd-500g".to_owned(), ..asked }), None);
    }

    #[test]
    fn only_an_existing_member_can_have_failed() {
        let with = |profile: &str, member| {
            let size = Bytes::gib(1);
            let options = AttachOptions { failed_member: Some(member), ..AttachOptions::new(profile, size) };
            build(&options, size).map(|model| model.is_some()).map_err(|error| error.to_string())
        };
        assert_eq!(with("raid5-5x-15k", 4), Ok(true));
        for (profile, member, reason) in [
            ("raid5-5x-15k", 5, "the array has 5, counted from 0"),
            ("wd-500g", 0, "a disk has no members"),
            ("none", 0, "--failed-member 0: "),
        ] {
            let error = with(profile, member).expect_err(profile);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn only_valid_factors_are_accepted() {
        for scale in [0.001, 0.25, 1.0, 100.0] {
            assert_eq!(check_scale(scale).ok(), Some(scale));
        }
        for scale in [0.0, -1.0, 0.0001, 100.1, f64::NAN, f64::INFINITY] {
            let error = check_scale(scale).expect_err("refused").to_string();
            assert!(error.contains("0.001 to 100"), "{error}");
        }
    }
}
