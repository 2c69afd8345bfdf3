//! The values that a statement looks up by an index, one after the other: `k IN (5, 7, 9)`.
//!
//! SQLite sorts the values of an IN list and looks the index up at each of them ("The SQLite Query Optimizer
//! Overview", section 2). With an equality before the list, as in `a = 3 AND k IN (5, 7)`, the leading columns
//! have one value each: the points are the product of all columns' values. Entries between two points are not
//! read.

use crate::header::Encoding;
use crate::record::{Order, Value, compare};
use crate::tree::Owned;
use crate::walk::Direction;
use std::cmp::Ordering;

/// The points of a scan, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// For each leading column of the index, the distinct values in the order of the scan.
    columns: Vec<Vec<Owned>>,
    orders: Vec<Order>,
    encoding: Encoding,
    direction: Direction,
}

/// One of the points: for each column, the position of its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PointAt(Vec<usize>);

impl PointAt {
    /// After all points.
    #[must_use]
    pub fn end() -> Self {
        Self(vec![usize::MAX])
    }
}

impl Points {
    /// The points of an index's leading columns. `None` if there are fewer than two, or if an unknown collation
    /// orders them.
    #[must_use]
    pub fn new(
        columns: Vec<Vec<Owned>>,
        order: impl Fn(usize) -> Order,
        encoding: Encoding,
        direction: Direction,
    ) -> Option<Self> {
        let orders: Vec<Order> = (0..columns.len()).map(order).collect();
        let mut points = Self { columns: Vec::with_capacity(columns.len()), orders, encoding, direction };
        for (position, mut values) in columns.into_iter().enumerate() {
            let plain = values.first()?.clone();
            // An unknown collation matters only between different texts.
            let known = |value: &Owned| points.compare(position, value.value(), plain.value()).is_some();
            if !values.iter().all(known) {
                return None;
            }
            let order = |a: &Owned, b: &Owned| points.compare(position, a.value(), b.value());
            values.sort_by(|a, b| order(a, b).unwrap_or(Ordering::Equal));
            values.dedup_by(|a, b| order(a, b) == Some(Ordering::Equal));
            points.columns.push(values);
        }
        points.columns.iter().any(|values| values.len() > 1).then_some(points)
    }

    /// The same points in this direction.
    #[must_use]
    pub fn in_direction(mut self, direction: Direction) -> Self {
        if self.direction != direction {
            self.direction = direction;
            self.columns.iter_mut().for_each(|values| values.reverse());
        }
        self
    }

    /// Their direction.
    #[must_use]
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// How many columns have values.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// How two values of a column follow each other in the scan.
    fn compare(&self, position: usize, a: Value<'_>, b: Value<'_>) -> Option<Ordering> {
        let ordering = compare(a, b, self.orders[position], self.encoding)?;
        Some(match self.direction {
            Direction::Forward => ordering,
            Direction::Backward => ordering.reverse(),
        })
    }

    /// The first point that does not come before an entry of these columns. `None` if all do, or if the entry
    /// cannot be compared.
    #[must_use]
    pub fn from<'a>(&self, entry: impl Iterator<Item = Value<'a>>) -> Option<PointAt> {
        let mut at = Vec::with_capacity(self.width());
        let mut entry = entry;
        for (position, values) in self.columns.iter().enumerate() {
            let held = entry.next()?;
            let mut unknown = false;
            let first = values.partition_point(|value| {
                let ordering = self.compare(position, value.value(), held);
                unknown |= ordering.is_none();
                ordering == Some(Ordering::Less)
            });
            if unknown {
                return None;
            }
            let equal = |value: &Owned| self.compare(position, value.value(), held) == Some(Ordering::Equal);
            match values.get(first) {
                Some(value) if equal(value) => at.push(first),
                Some(_) => {
                    at.push(first);
                    at.resize(self.width(), 0);
                    return Some(PointAt(at));
                }
                // None of this column: the column before it advances.
                None => {
                    at.resize(self.width(), usize::MAX);
                    return self.after(&PointAt(at));
                }
            }
        }
        Some(PointAt(at))
    }

    /// The point after one.
    #[must_use]
    pub fn after(&self, point: &PointAt) -> Option<PointAt> {
        let more = |(&at, values): (&usize, &Vec<Owned>)| at < values.len() - 1;
        let column = point.0.iter().zip(&self.columns).rposition(more)?;
        let mut next = point.0[..=column].to_vec();
        next[column] += 1;
        next.resize(self.width(), 0);
        Some(PointAt(next))
    }

    /// The values of a point.
    #[must_use]
    pub fn values(&self, point: &PointAt) -> Vec<Owned> {
        point.0.iter().zip(&self.columns).map(|(&at, values)| values[at].clone()).collect()
    }

    /// Whether an entry of these columns is at this point.
    #[must_use]
    pub fn is_at<'a>(&self, point: &PointAt, entry: impl Iterator<Item = Value<'a>>) -> bool {
        let mut entry = entry;
        let same = |(position, &at): (usize, &usize)| {
            let value = self.columns[position][at].value();
            entry.next().is_some_and(|held| self.compare(position, value, held) == Some(Ordering::Equal))
        };
        point.0.iter().enumerate().all(same)
    }

    /// Whether an entry of these columns is at any point.
    #[must_use]
    pub fn contain<'a>(&self, entry: impl Iterator<Item = Value<'a>> + Clone) -> bool {
        self.from(entry.clone()).is_some_and(|point| self.is_at(&point, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Collation;
    use proptest::prelude::*;

    fn order(descending: bool) -> Order {
        Order { collation: Collation::Binary, descending }
    }

    fn integers(values: &[i64]) -> Vec<Owned> {
        values.iter().copied().map(Owned::Integer).collect()
    }

    fn points(columns: &[Vec<i64>], descending: bool, direction: Direction) -> Option<Points> {
        let columns = columns.iter().map(|values| integers(values)).collect();
        Points::new(columns, |_| order(descending), Encoding::Utf8, direction)
    }

    fn entry(values: &[i64]) -> impl Iterator<Item = Value<'_>> + Clone {
        values.iter().copied().map(Value::Integer)
    }

    proptest! {
        #[test]
        fn points_follow_each_other_as_the_sorted_product_does(
            first in proptest::collection::vec(0i64..8, 1..5),
            second in proptest::collection::vec(0i64..8, 1..5),
            held in [0i64..8, 0i64..8],
            descending: bool,
            backward: bool,
        ) {
            let direction = if backward { Direction::Backward } else { Direction::Forward };
            let mut product: Vec<[i64; 2]> =
                first.iter().flat_map(|&a| second.iter().map(move |&b| [a, b])).collect();
            let rank = |pair: &[i64; 2]| if descending == backward { *pair } else { pair.map(|value| -value) };
            product.sort_unstable_by_key(rank);
            product.dedup();
            let Some(points) = points(&[first, second], descending, direction) else {
                prop_assert_eq!(product.len(), 1);
                return Ok(());
            };
            let turned = points.clone().in_direction(Direction::Backward).in_direction(Direction::Forward);
            prop_assert_eq!(turned.in_direction(direction), points.clone());
            let naive: Vec<[i64; 2]> =
                product.iter().copied().filter(|pair| rank(pair) >= rank(&held)).collect();
            let mut at = points.from(entry(&held));
            for pair in &naive {
                let point = at.expect("goes on");
                prop_assert_eq!(points.values(&point), integers(pair));
                prop_assert!(points.is_at(&point, entry(pair)));
                at = points.after(&point);
            }
            prop_assert_eq!(at, None);
            prop_assert_eq!(points.contain(entry(&held)), product.contains(&held));
        }
    }

    #[test]
    fn one_point_is_none_to_go_on_from() {
        assert_eq!(points(&[vec![5], vec![7, 7]], false, Direction::Forward), None);
        assert_eq!(Points::new(vec![Vec::new()], |_| order(false), Encoding::Utf8, Direction::Forward), None);
    }

    #[test]
    fn an_entry_that_is_cut_off_or_of_an_unknown_collation_is_at_no_point() {
        let points = points(&[vec![5], vec![7, 9]], false, Direction::Forward).expect("two");
        assert_eq!(points.from(entry(&[5])), None);
        assert!(!points.contain(entry(&[5])));
        let texts = vec![Owned::Text(Box::from(*b"a")), Owned::Text(Box::from(*b"b"))];
        let unknown = Order { collation: Collation::Unknown, descending: false };
        assert_eq!(Points::new(vec![texts], |_| unknown, Encoding::Utf8, Direction::Forward), None);
    }
}
