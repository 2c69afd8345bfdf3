//! Groups of bars.

use crate::axis::Axis;
use crate::frame::{self, BOTTOM, LEFT, RIGHT};
use std::fmt::Write;

/// The share of a group's width that its bars take.
const TAKEN: f64 = 0.76;

/// Bars that stand together: one a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name below the axis.
    pub name: String,
    /// Value and interval of each series, in the order of the names; not finite: none.
    pub bars: Vec<(f64, f64, f64)>,
}

/// A chart of bars. The axis begins at nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The title.
    pub title: String,
    /// What the groups are.
    pub across: String,
    /// What the upright axis shows, with its unit.
    pub upright: String,
    /// The names of the series; none where one only keeps a colour from the others.
    pub series: Vec<String>,
    /// The groups, from left to right.
    pub groups: Vec<Group>,
}

impl Bars {
    /// The chart as the text of an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        let names: Vec<&str> = self.series.iter().map(String::as_str).collect();
        let drawn = || self.groups.iter().flat_map(|group| &group.bars).filter(|bar| bar.0.is_finite());
        let largest = drawn().map(|(value, _, high)| value.max(*high)).fold(0.0, f64::max);
        let values = frame::begin(&mut svg, &self.title, &self.upright, &names, largest);
        let width = (RIGHT - LEFT) / self.groups.len().max(1) as f64;
        for (number, group) in self.groups.iter().enumerate() {
            let left = LEFT + width * number as f64;
            group.draw(&mut svg, left, width, values, &names);
        }
        frame::end(&mut svg, &self.across);
        svg
    }
}

impl Group {
    fn draw(&self, svg: &mut String, left: f64, width: f64, values: Axis, names: &[&str]) {
        frame::tick(svg, left + width / 2.0, &self.name);
        let named = || self.bars.iter().zip(names).enumerate().filter(|(_, (_, name))| !name.is_empty());
        let bar = width * TAKEN / named().count().max(1) as f64;
        let placed = named().enumerate().filter(|(_, (_, (bar, _)))| bar.0.is_finite());
        for (place, (series, ((value, low, high), _))) in placed {
            let x = left + width * (1.0 - TAKEN) / 2.0 + bar * place as f64;
            let top = values.at(value.max(0.0));
            // Writing to a String cannot fail.
            let _ = writeln!(
                svg,
                "<rect class=\"f{}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                series % crate::SERIES_LIMIT,
                (bar - 1.0).max(0.5),
                BOTTOM - top
            );
            if low < high && high.is_finite() {
                let (low, high) = (values.at(low.max(0.0)), values.at(*high));
                let middle = x + bar / 2.0;
                let _ = writeln!(svg, "<path class=\"whisker\" d=\"M{middle:.1} {low:.1}V{high:.1}\"/>");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_values_and_what_is_missing_is_left_out() {
        let svg = Bars {
            title: "Time".into(),
            across: String::new(),
            upright: "normalized".into(),
            series: vec!["a".into(), "b".into()],
            groups: vec![
                Group { name: "one".into(), bars: vec![(1.0, 1.0, 1.0), (0.5, 0.4, 0.6)] },
                Group { name: "two".into(), bars: vec![(f64::NAN, 0.0, 0.0), (0.0, 0.0, 0.0)] },
            ],
        }
        .to_svg();
        let height = |part: &str| -> f64 {
            part.split("height=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next()?.parse().ok())
                .unwrap_or(-1.0)
        };
        let bars: Vec<f64> = svg.split("<rect class=\"f").skip(1).map(height).collect();
        assert_eq!(bars.len(), 3);
        assert!((bars[0] - 2.0 * bars[1]).abs() < 0.2 && bars[2] == 0.0, "{bars:?}");
        assert_eq!(svg.matches("class=\"whisker\"").count(), 1);
        assert!(!svg.contains("NaN"));
    }
}
