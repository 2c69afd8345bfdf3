//! The plot: where on the disk each request began, over time, for both ways of running a query.
//!
//! Both panels have one scale of addresses; the lower one enlarges the time that Foreseek took. A pass in disk
//! order is a rising line.

use foreseek_chart::{Panel, Zoomed};
use foreseek_units::{Bytes, Lba, Nanos};
use std::fmt::Write;

/// The most marks of a panel: as many as can be distinguished, in a file of a few hundred KB. Beyond that, marks
/// are left out evenly.
pub const MARKS_A_PANEL: usize = 20_000;

/// The share of addresses at either end that may fall off the plot. Otherwise a few requests for the file
/// system's own blocks, a gigabyte away, would squeeze all others into a line.
const OUTLIERS: f64 = 0.002;

/// A request to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When, from the start of the run.
    pub at: Nanos,
    /// Its first sector.
    pub lba: Lba,
}

/// One way of running a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    /// What it is called.
    pub(super) label: &'a str,
    /// How long it took.
    pub(super) duration: Nanos,
    /// Its requests, in any order.
    pub(super) marks: &'a [Mark],
}

/// The most marks of a panel that is half as wide.
const MARKS_OF_A_NARROW_PANEL: usize = 5_000;

/// The plot of both ways as the text of an SVG document: without prefetching above, with it below.
pub(super) fn plot(title: String, note: String, stock: Way<'_>, foreseek: Way<'_>) -> String {
    zoomed(title, note, [stock, foreseek], MARKS_A_PANEL).to_svg()
}

/// The same, half as wide, for phones and for print.
pub(super) fn narrow_plot(title: String, stock: Way<'_>, foreseek: Way<'_>) -> String {
    zoomed(title, String::new(), [stock, foreseek], MARKS_OF_A_NARROW_PANEL).to_narrow_svg()
}

fn zoomed(title: String, note: String, ways: [Way<'_>; 2], limit: usize) -> Zoomed {
    let values = addresses(ways.iter().flat_map(|way| way.marks));
    Zoomed {
        title,
        note,
        across: "time, s".into(),
        upright: "address on disk, MiB".into(),
        values,
        panels: ways.map(|way| way.panel(values, limit)),
    }
}

/// The range of addresses in MiB that both panels show.
fn addresses<'a>(marks: impl Iterator<Item = &'a Mark>) -> (f64, f64) {
    let mut all: Vec<Lba> = marks.map(|mark| mark.lba).collect();
    all.sort_unstable();
    let off = (all.len() as f64 * OUTLIERS) as usize;
    let (Some(low), Some(high)) = (all.get(off), all.len().checked_sub(off + 1).map(|i| all[i])) else {
        return (0.0, 1.0);
    };
    let (low, high) = (mebibytes(*low), mebibytes(high));
    let margin = (high - low).max(1.0) * 0.03;
    ((low - margin).max(0.0), high + margin)
}

impl Way<'_> {
    /// Its marks that lie within these addresses, and a line that describes them.
    fn panel(&self, (low, high): (f64, f64), limit: usize) -> Panel {
        let dot = |mark: &Mark| (mark.at.as_secs_f64(), mebibytes(mark.lba));
        let all = self.marks.iter().filter(|mark| mark.at <= self.duration).map(dot);
        let mut dots: Vec<(f64, f64)> = all.filter(|(_, y)| low <= *y && *y <= high).collect();
        let inside = dots.len();
        thin(&mut dots, limit);
        let mut note = format!("{} requests", grouped(self.marks.len()));
        if dots.len() < inside {
            let _ = write!(note, ", {} drawn", grouped(dots.len()));
        }
        if inside < self.marks.len() {
            let _ = write!(note, ", {} outside", grouped(self.marks.len() - inside));
        }
        Panel { label: self.label.to_owned(), note, end: self.duration.as_secs_f64(), dots }
    }
}

/// Leaves out evenly what exceeds the limit.
fn thin<T>(all: &mut Vec<T>, limit: usize) {
    let (count, keep) = (all.len(), all.len().min(limit));
    let mut number = 0;
    all.retain(|_| {
        number += 1;
        // As in Bresenham's algorithm: a mark is kept when the count steps on.
        number * keep / count != (number - 1) * keep / count
    });
}

fn mebibytes(lba: Lba) -> f64 {
    lba.offset().get() as f64 / Bytes::mib(1).get() as f64
}

/// A count with its digits in groups of three.
pub(super) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `passes` sweeps over addresses from 1 GiB on, and a stray request at the disk's start.
    fn sweeps(count: u64, passes: u64) -> Vec<Mark> {
        let mut marks: Vec<Mark> = (0..count)
            .map(|i| Mark {
                at: Nanos::from_micros(i * 100),
                lba: Lba((1 << 21) + i * passes % count * 200_000 / count),
            })
            .collect();
        marks.push(Mark { at: Nanos::ZERO, lba: Lba(2) });
        marks
    }

    fn sample(marks: usize) -> String {
        let (stock, foreseek) = (sweeps(marks as u64, 37), sweeps(1000, 8));
        plot(
            "Blocks".into(),
            "made up".into(),
            Way { label: "Stock", duration: Nanos::from_secs(100), marks: &stock },
            Way { label: "With Foreseek", duration: Nanos::from_millis(100), marks: &foreseek },
        )
    }

    #[test]
    fn every_request_is_drawn_or_counted() {
        let svg = sample(5000);
        assert!(svg.contains("5,001 requests, 1 outside"));
        assert!(svg.contains("1,001 requests, 1 outside"));
        assert_eq!(svg.matches("h0").count(), 6000);
    }

    #[test]
    fn there_are_never_more_marks_than_the_limit() {
        let svg = sample(50_000);
        assert!(svg.contains("50,001 requests, 20,000 drawn, 1 outside"));
        assert_eq!(svg.matches("h0").count(), 21_000);
    }

    #[test]
    fn a_run_without_requests_is_drawn_empty() {
        let none = Way { label: "none", duration: Nanos::ZERO, marks: &[] };
        let svg = plot(String::new(), String::new(), none, none);
        assert!(svg.contains("0 requests") && !svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
