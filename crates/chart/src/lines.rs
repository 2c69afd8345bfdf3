//! Curves.

use crate::axis::{Axis, binary, plain};
use crate::frame::{self, LEFT, RIGHT};
use crate::style::class;
use std::fmt::Write;

/// One value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where on the level axis.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The lower end of its interval; the value itself where it has none.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend; none where it only keeps a colour from the others.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
    /// How they are drawn.
    pub mark: Mark,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Joined by a line.
    #[default]
    Line,
    /// Each by itself: measurements that scatter.
    Dots,
}

/// What the level axis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Across {
    /// Values, in proportion.
    Linear,
    /// The steps of a sweep (1, 2, 4, 8, ...), at equal distances.
    Steps,
    /// The logarithms of values from one on, marked at powers of two with binary prefixes.
    Doubling,
}

/// A chart of curves. The upright axis begins at nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// The title.
    pub title: String,
    /// What the level axis shows, with its unit.
    pub across: String,
    /// How it is divided.
    pub scale: Across,
    /// What the upright axis shows, with its unit.
    pub upright: String,
    /// The curves; those above [`crate::SERIES_LIMIT`] take the first ones' colours again.
    pub series: Vec<Series>,
}

impl Lines {
    /// The chart as the text of an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let points = || self.series.iter().flat_map(|series| &series.points).filter(|point| point.is_drawn());
        let largest = points().map(|point| point.y.max(point.high)).fold(0.0, f64::max);
        let values = frame::begin(&mut svg, &self.title, &self.upright, &names, largest);
        let level = self.level(points().map(|point| point.x).collect(), &mut svg);
        for (number, series) in self.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()) {
            draw(&mut svg, &class(number), series, &level, values);
        }
        frame::end(&mut svg, &self.across);
        svg
    }

    /// Draws the level axis' ticks; answers where values lie on it.
    fn level(&self, mut xs: Vec<f64>, svg: &mut String) -> Level {
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (first, last) = (xs.first().copied().unwrap_or(0.0), xs.last().copied().unwrap_or(1.0));
        match self.scale {
            Across::Linear => {
                let axis = Axis::new((first.min(0.0), last), (LEFT, RIGHT));
                axis.ticks(8).into_iter().for_each(|tick| frame::tick(svg, axis.at(tick), &plain(tick)));
                Level { axis, place: AxisScale::InProportion }
            }
            Across::Doubling => {
                let axis = Axis::new((doublings(first), doublings(last)), (LEFT, RIGHT));
                for power in powers(axis) {
                    frame::tick(svg, axis.at(f64::from(power)), &binary(1 << power));
                }
                Level { axis, place: AxisScale::Logarithm }
            }
            Across::Steps => {
                // Half a step is left free at either end.
                let axis = Axis::new((-0.5, xs.len().max(1) as f64 - 0.5), (LEFT, RIGHT));
                for (step, x) in xs.iter().enumerate() {
                    frame::tick(svg, axis.at(step as f64), &plain(*x));
                }
                Level { axis, place: AxisScale::Step(xs) }
            }
        }
    }
}

impl Point {
    fn is_drawn(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }
}

/// The level axis.
struct Level {
    axis: Axis,
    place: AxisScale,
}

/// Where on the axis a value lies.
enum AxisScale {
    InProportion,
    Logarithm,
    /// At its number among these.
    Step(Vec<f64>),
}

impl Level {
    fn at(&self, x: f64) -> f64 {
        self.axis.at(match &self.place {
            AxisScale::InProportion => x,
            AxisScale::Logarithm => doublings(x),
            AxisScale::Step(steps) => steps.partition_point(|step| *step < x) as f64,
        })
    }
}

fn doublings(value: f64) -> f64 {
    value.max(1.0).log2()
}

/// The powers of two to be marked, so far apart that there is room for their names.
fn powers(axis: Axis) -> impl Iterator<Item = u32> {
    /// Marks at most.
    const MOST: f64 = 12.0;
    let (low, high) = (axis.values.0.ceil(), axis.values.1.floor().min(63.0));
    let apart = ((high - low) / MOST).ceil().max(1.0);
    (low as u32..=high as u32).step_by(apart as usize)
}

fn draw(svg: &mut String, class: &str, series: &Series, level: &Level, values: Axis) {
    let points: Vec<&Point> = series.points.iter().filter(|point| point.is_drawn()).collect();
    let (kind, dot) = if series.mark == Mark::Dots { ("dots", "h0") } else { ("line", "") };
    // Writing to a String cannot fail.
    let _ = write!(svg, "<path class=\"{kind} {class}\" d=\"");
    for (number, point) in points.iter().enumerate() {
        let letter = if number == 0 || series.mark == Mark::Dots { 'M' } else { 'L' };
        let _ = write!(svg, "{letter}{:.1} {:.1}{dot}", level.at(point.x), values.at(point.y));
    }
    if let ([only], Mark::Line) = (points.as_slice(), series.mark) {
        // A line to nowhere would not be seen.
        let _ = write!(svg, "M{:.1} {:.1}h12", level.at(only.x) - 6.0, values.at(only.y));
    }
    svg.push_str("\"/>\n");
    let bounds = points.iter().filter(|point| point.low < point.high && point.high.is_finite());
    let mut marks = String::new();
    for point in bounds {
        let (low, high) = (values.at(point.low.max(0.0)), values.at(point.high));
        let _ = write!(marks, "M{:.1} {low:.1}V{high:.1}", level.at(point.x));
    }
    if !marks.is_empty() {
        let _ = writeln!(svg, "<path class=\"bound {class}\" d=\"{marks}\"/>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Across) -> Lines {
        let point = |x: f64, y: f64| Point { x, y, low: y - 1.0, high: y + 1.0 };
        Lines {
            title: "Throughput <all>".into(),
            across: "concurrency".into(),
            scale,
            upright: "MB/s".into(),
            series: vec![
                Series {
                    name: "linux".into(),
                    points: vec![point(1.0, 10.0), point(64.0, 20.0)],
                    mark: Mark::Line,
                },
                Series {
                    name: "competitive".into(),
                    points: vec![point(1.0, 15.0), point(8.0, f64::NAN)],
                    mark: Mark::Line,
                },
            ],
        }
    }

    #[test]
    fn it_stands_by_itself_and_is_escaped() {
        let svg = chart(Across::Steps).to_svg();
        assert!(svg.contains("Throughput &lt;all&gt;"));
        let outside = svg.replace("http://www.w3.org/2000/svg", "");
        for reference in ["http", "url(", "href", "<script", "@import", "NaN", "inf"] {
            assert!(!outside.contains(reference), "{reference}");
        }
    }

    #[test]
    fn steps_are_equally_far_apart_and_values_in_proportion() {
        // Two steps: a quarter and three quarters of the width.
        let svg = chart(Across::Steps).to_svg();
        assert!(svg.contains("d=\"M203.0 ") && svg.contains("L481.0 "), "{svg}");
        let svg = chart(Across::Linear).to_svg();
        assert!(svg.contains(&format!("L{RIGHT:.1} ")), "{svg}");
    }

    /// One at the left edge, 64 at the right, eight in the middle, and a mark for each power of two.
    #[test]
    fn doublings_are_equally_far_apart() {
        let mut chart = chart(Across::Doubling);
        chart.series[1].points[1].y = 12.0;
        let svg = chart.to_svg();
        let middle = f64::midpoint(LEFT, RIGHT);
        assert!(svg.contains(&format!("L{RIGHT:.1} ")) && svg.contains(&format!("L{middle:.1} ")), "{svg}");
        assert!([">1<", ">2<", ">8<", ">64<"].iter().all(|mark| svg.contains(mark)), "{svg}");
        chart.series[0].points[1].x = 1e12;
        let svg = chart.to_svg();
        assert!(svg.contains(">64G<") && svg.matches("class=\"axis\"").count() < 16, "{svg}");
    }

    #[test]
    fn dots_are_not_joined() {
        let mut chart = chart(Across::Linear);
        chart.series.truncate(1);
        chart.series[0].mark = Mark::Dots;
        let svg = chart.to_svg();
        let (_, path) = svg.split_once("<path class=\"dots s0\" d=\"").expect("dots");
        let path = path.split('"').next().unwrap_or_default();
        assert_eq!(
            (path.matches('M').count(), path.matches("h0").count(), path.matches('L').count()),
            (2, 2, 0)
        );
    }

    #[test]
    fn a_series_of_one_point_is_seen() {
        let mut chart = chart(Across::Linear);
        chart.series.truncate(1);
        chart.series[0].points.truncate(1);
        assert!(chart.to_svg().contains("h12"));
    }

    #[test]
    fn a_chart_without_points_is_drawn_empty() {
        let svg = Lines { series: Vec::new(), ..chart(Across::Steps) }.to_svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
