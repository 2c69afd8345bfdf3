//! The contention controller's buffer over time, from recordings of programs that ran together (`FORESEEK_RECORD`).
//!
//! ```sh
//! cargo run -p foreseek-libprefetch --example buffer -- RECORDING... > buffer.svg
//! ```
//!
//! Replays each recording in virtual time, which also shows that the engine answers as it did in the program. The chart
//! goes to standard output, a line for each program to standard error: the least, mean and largest buffer by time, how often it fell, and
//! how many fetched pages were evicted.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use foreseek_chart::{Across, Lines, Mark, Point, Series};
use foreseek_hints::{AccessListEngine, Settings};
use foreseek_seam::record::{Recording, replay};
use foreseek_seam::{Commands, Engine, Event};
use foreseek_units::{Instant, Pages};
use std::error::Error;

/// Points of a curve: more would not be seen.
const POINTS: usize = 400;

/// An engine whose buffer is watched.
struct Watched {
    engine: AccessListEngine,
    changes: Vec<(Instant, Pages)>,
    last: Instant,
}

impl Engine for Watched {
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Commands) {
        self.engine.on(now, event, out);
        let buffer = self.engine.stats().buffer;
        // Before the first budget there is no buffer.
        if !buffer.is_zero() && self.changes.last().is_none_or(|(_, last)| *last != buffer) {
            self.changes.push((now, buffer));
        }
        self.last = now;
    }

    fn deadline(&self) -> Option<Instant> {
        self.engine.deadline()
    }
}

impl Watched {
    /// The program with this recording.
    fn replayed(path: &str) -> Result<Self, Box<dyn Error>> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let recording = Recording::<Settings>::open(&text)?;
        let engine = AccessListEngine::new(recording.settings().clone());
        let mut watched = Self { engine, changes: Vec::new(), last: Instant::ZERO };
        replay(&mut watched, &recording)?;
        Ok(watched)
    }

    /// Each size with the seconds from its beginning to its end, after `zero`.
    fn sizes(&self, zero: Instant) -> Vec<(f64, f64, f64)> {
        let seconds = |at: Instant| (at - zero).as_secs_f64();
        let ends = self.changes.iter().skip(1).map(|(at, _)| *at).chain([self.last]);
        let sizes = self.changes.iter().zip(ends);
        sizes.map(|((from, pages), to)| (seconds(*from), seconds(to), pages.get() as f64 / 256.0)).collect()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let programs: Vec<Watched> =
        std::env::args().skip(1).map(|path| Watched::replayed(&path)).collect::<Result<_, _>>()?;
    let firsts = programs.iter().filter_map(|one| one.changes.first());
    let zero = firsts.map(|(at, _)| *at).min().ok_or("give recordings: files of FORESEEK_RECORD")?;
    let end = programs.iter().map(|one| one.last).max().unwrap_or(zero);
    let end = (end - zero).as_secs_f64();
    eprintln!("program  seconds  least MiB  mean MiB  most MiB  falls  evicted");
    let mut series = Vec::new();
    for (program, number) in programs.iter().zip(1..) {
        let sizes = program.sizes(zero);
        let falls = sizes.windows(2).filter(|two| two[1].2 < two[0].2).count();
        let (least, most) =
            sizes.iter().fold((f64::MAX, 0.0f64), |(low, high), size| (low.min(size.2), high.max(size.2)));
        let took: f64 = sizes.iter().map(|(from, to, _)| to - from).sum();
        let mean = sizes.iter().map(|(from, to, size)| (to - from) * size).sum::<f64>() / took;
        let evicted = program.engine.stats().evicted;
        eprintln!(
            "{number:>7}  {took:>7.2}  {least:>9.2}  {mean:>8.2}  {most:>8.2}  {falls:>5}  {evicted:>7}"
        );
        let at = |seconds: f64| sizes.iter().rev().find(|(from, to, _)| *from <= seconds && seconds <= *to);
        let points = (0..=POINTS).filter_map(|step| {
            let seconds = end * step as f64 / POINTS as f64;
            at(seconds).map(|size| Point { x: seconds, y: size.2, low: size.2, high: size.2 })
        });
        series.push(Series { name: format!("program {number}"), points: points.collect(), mark: Mark::Line });
    }
    let chart = Lines {
        title: "Reorder buffer".to_owned(),
        across: "time, s".to_owned(),
        scale: Across::Linear,
        upright: "MiB".to_owned(),
        series,
    };
    println!("{}", chart.to_svg());
    Ok(())
}
