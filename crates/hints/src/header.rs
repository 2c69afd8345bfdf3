//! The settings of an access-list engine as the second line of its recording.

use crate::settings::{Order, ParseShareError, Settings};
use foreseek_seam::record::Header;
use foreseek_seam::record::fields::{Fields, Reason, number, optional};
use foreseek_units::Pages;
use std::fmt::Write;

/// Choices written at the end of the line if they differ from the default.
const EVICTION_ORDER: &str = " eviction_order";
const UNCONTROLLED: &str = " uncontrolled";

impl Header for Settings {
    fn write(&self, line: &mut String) {
        let or_none = |pages: Option<Pages>| pages.map_or("-".to_owned(), |pages| pages.0.to_string());
        let order = match self.order {
            Order::Disk => "disk",
            Order::File => "file",
        };
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "settings share={} memory={} infill={} order={order} mode={} first_round={} \
             growth={} list_limit={}",
            self.share,
            or_none(self.memory),
            self.infill.0,
            self.mode,
            or_none(self.first_round),
            self.growth,
            self.list_limit,
        );
        if self.eviction_order {
            line.push_str(EVICTION_ORDER);
        }
        if !self.controlled {
            line.push_str(UNCONTROLLED);
        }
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self, Reason> {
        fields.expect("settings")?;
        let share = fields.value("share")?;
        let share =
            share.parse().map_err(|reason: ParseShareError| format!("'{share}' is no share: {reason}"))?;
        let memory = optional(fields.value("memory")?)?;
        let infill = Pages(number(fields.value("infill")?)?);
        let order = match fields.value("order")? {
            "disk" => Order::Disk,
            "file" => Order::File,
            other => return Err(format!("'{other}' is no order: disk or file")),
        };
        let mode = fields.value("mode")?;
        let mode = mode.parse().map_err(|reason| format!("'{mode}' is no mode: {reason}"))?;
        let first_round = optional(fields.value("first_round")?)?;
        let growth = number(fields.value("growth")?)?;
        let list_limit = number(fields.value("list_limit")?)?;
        let mut choices = Vec::new();
        fields.rest(&mut choices, |word| Ok(format!(" {word}")))?;
        let chosen = |word: &str| choices.iter().any(|choice| choice == word);
        let (eviction_order, controlled) = (chosen(EVICTION_ORDER), !chosen(UNCONTROLLED));
        if let Some(other) =
            choices.iter().find(|word| ![EVICTION_ORDER, UNCONTROLLED].contains(&word.as_str()))
        {
            return Err(format!("'{}' is no choice", other.trim()));
        }
        let settings = Self {
            share,
            memory,
            infill,
            order,
            mode,
            first_round,
            growth,
            list_limit,
            eviction_order,
            controlled,
        };
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use crate::{AccessListEngine, Settings, Share};
    use foreseek_seam::record::Text;
    use foreseek_seam::{Recording, replay};
    use foreseek_units::Pages;
    use proptest::prelude::*;

    const HEAD: &str = "foreseek-recording 2\n\
        settings share=stock memory=- infill=8 order=disk mode=blocking first_round=64 growth=4 list_limit=4096\n";

    #[test]
    fn settings_are_read_as_they_were_written() {
        for settings in [
            Settings::default(),
            Settings { first_round: Some(Pages(64)), memory: Some(Pages(9)), ..Settings::paper() },
            Settings { share: Share::Percent(75), ..Settings::default() },
            Settings { controlled: false, ..Settings::default() },
            Settings { share: Share::Probing, ..Settings::default() },
        ] {
            let text = Text::default();
            text.recorder().begin(&settings);
            assert_eq!(
                Recording::<Settings>::open(&text.so_far()).map(|one| one.settings().clone()),
                Ok(settings)
            );
        }
    }

    proptest! {
        /// No text of a file makes the parser or the engine panic.
        #[test]
        fn no_text_makes_a_replay_panic(
            words in proptest::collection::vec(
                proptest::collection::vec(
                    prop_oneof![
                        Just("opened".to_owned()), Just("placed".to_owned()), Just("watched".to_owned()),
                        Just("read".to_owned()), Just("hint".to_owned()), Just("set".to_owned()),
                        Just("done".to_owned()), Just("resident".to_owned()), Just("unwatched".to_owned()),
                        Just("budget".to_owned()),
                        Just("changed".to_owned()), Just("append".to_owned()), Just("more".to_owned()),
                        "[0-9]{1,20}", "[0-9]{1,3}", "[0-9]{1,20}\\.\\.[0-9]{1,20}", "[0-9]{1,2}:[0-9]{1,9}\\*?",
                        "[0-9]{1,20}\\+[0-9]{1,20}@[0-9]{1,20}", "\\PC{0,6}",
                    ], 0..8),
                0..12),
        ) {
            let mut text = HEAD.to_owned();
            for (time, line) in words.iter().enumerate() {
                text.push_str(&format!("{time} {}\n", line.join(" ")));
            }
            let recording = Recording::<Settings>::open(&text).expect("the head is right");
            let mut engine = AccessListEngine::new(recording.settings().clone());
            // The recorded commands are missing, so the replay ends at the engine's first command.
            let _ = replay(&mut engine, &recording);
        }
    }
}
