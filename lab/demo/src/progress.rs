//! Live progress on a terminal; a line a stage elsewhere; nothing when quiet.

use foreseek_units::Bytes;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the figures of the disk's server are updated.
const RENEWAL: Duration = Duration::from_millis(500);

/// Where progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Nowhere.
    Quiet,
    /// On standard error: moving on a terminal, otherwise a line a stage.
    StandardError,
}

/// One stage of the demo, with a bar where it can be measured.
#[derive(Debug)]
pub(crate) struct Stage {
    bar: ProgressBar,
    start: Instant,
    renewed: Option<Instant>,
    requests: (u64, f64),
}

impl Show {
    /// Begins a stage of this many rows.
    pub(crate) fn stage(self, name: &str, rows: u64) -> Stage {
        let terminal = std::io::stderr().is_terminal();
        let bar = match (self, terminal) {
            (Self::StandardError, true) => ProgressBar::new(rows),
            _ => ProgressBar::hidden(),
        };
        if self == Self::StandardError && !terminal {
            // Progress that cannot be written is no failure.
            let _ = writeln!(std::io::stderr(), "{name}");
        }
        let style = ProgressStyle::with_template("{prefix:<44} {bar:24} {percent:>3} %  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_prefix(name.to_owned());
        Stage { bar, start: Instant::now(), renewed: None, requests: (0, 0.0) }
    }
}

impl Stage {
    /// Shows the rows that were done and the bytes of the result; `requests` asks the disk how many it has
    /// answered.
    pub(crate) fn at(&mut self, rows: u64, bytes: Bytes, requests: &mut dyn FnMut() -> Option<u64>) {
        let now = Instant::now();
        if self.renewed.is_none_or(|renewed| now - renewed >= RENEWAL) {
            if let Some(count) = requests() {
                let since = self.renewed.map_or(now - self.start, |renewed| now - renewed).as_secs_f64();
                let rate = count.saturating_sub(self.requests.0) as f64 / since.max(1e-3);
                self.requests = (count, rate);
            }
            self.renewed = Some(now);
        }
        self.bar.set_position(rows);
        let left = match rows {
            0 => "?".to_owned(),
            _ => {
                let total = self.bar.length().unwrap_or(rows).max(rows) as f64;
                let left = self.start.elapsed().as_secs_f64() * (total / rows as f64 - 1.0);
                HumanDuration(Duration::from_secs_f64(left.max(0.0))).to_string()
            }
        };
        let rate = match self.requests.1 {
            rate if rate > 0.0 => format!(", {rate:.0} requests/s"),
            _ => String::new(),
        };
        self.bar.set_message(format!("{rows} rows, {:.0} MB{rate}, {left} left", bytes.get() as f64 / 1e6));
    }

    /// The stage is over; the last words stay on the terminal.
    pub(crate) fn done(self, words: &str) {
        self.bar.set_position(self.bar.length().unwrap_or_default());
        self.bar.finish_with_message(words.to_owned());
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.bar.is_finished() {
            self.bar.abandon();
        }
    }
}
