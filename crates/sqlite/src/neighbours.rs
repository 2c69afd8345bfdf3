//! Recognises a scan that reads only leaves: `count(*)`, a covering index, a table by its own key.
//!
//! Such a scan leaves a plain trace: one leaf of a tree after the other in key order, with nothing in between.
//! If the leaves are contiguous in the file, the kernel reads ahead by itself; therefore only a step beyond its
//! window is evidence.

use crate::page::{Page, PageNo};
use crate::recognise::EVIDENCE;
use crate::walk::Direction;

/// Pages ahead that the kernel's read-ahead has fetched: its window of 128 KiB in pages of 4 KiB.
const WINDOW: u32 = 32;

/// The most steps between two attempts: 256 seeks are a second or two of a scan that may still begin.
const NEEDED_LIMIT: usize = 256;

/// The leaves that a stream has read one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Neighbours {
    last: Option<Last>,
    direction: Option<Direction>,
    /// Steps from a leaf to its neighbour, beyond the kernel's window.
    steps: usize,
    /// How many of them are evidence, if a scan could not begin after fewer.
    needed: usize,
}

/// The last read leaf.
#[derive(Clone, Copy, Debug)]
struct Last {
    leaf: PageNo,
    parent: PageNo,
    /// Its position among its parent's children, once it was searched.
    child: Option<usize>,
}

impl Neighbours {
    /// A leaf was read; `parent` is its parent page. Once there is evidence, returns the direction of the scan.
    pub(crate) fn leaf(&mut self, parent: &Page<'_>, leaf: PageNo) -> Option<Direction> {
        let before = self.last.replace(Last { leaf, parent: parent.number(), child: None });
        let before = before?;
        if before.leaf == leaf {
            self.last = Some(before);
            return None;
        }
        if before.parent != parent.number() {
            // The next parent begins with the next leaf, or there is another scan: the steps decide.
            self.direction = self.direction.filter(|_| self.is_edge(parent, leaf));
            if self.direction.is_none() {
                (self.steps, self.needed) = (0, 0);
            }
            return None;
        }
        let child = before.child.or_else(|| parent.position(before.leaf));
        let (direction, place) = child.and_then(|child| next_to(parent, child, leaf)).unzip();
        if let Some(last) = &mut self.last {
            last.child = place;
        }
        if direction.is_none() || self.direction.is_some() && self.direction != direction {
            (self.steps, self.needed) = (0, 0);
        }
        self.direction = direction;
        let passed = leaf.get().wrapping_sub(before.leaf.get());
        self.steps += usize::from(direction.is_some() && passed > WINDOW);
        direction.filter(|_| self.steps >= self.needed.max(EVIDENCE))
    }

    /// A scan could not begin here. An attempt costs the text of the statement, therefore the next one is after
    /// twice as many steps.
    pub(crate) fn refused(&mut self) {
        self.steps = 0;
        self.needed = (self.needed.max(EVIDENCE) * 2).min(NEEDED_LIMIT);
    }

    /// Another page was read.
    pub(crate) fn other_page_read(&mut self) {
        *self = Self::default();
    }

    /// Whether a leaf is the one at which the scan enters this parent.
    fn is_edge(&self, parent: &Page<'_>, leaf: PageNo) -> bool {
        let edge = match self.direction {
            Some(Direction::Forward) => 0,
            Some(Direction::Backward) => parent.cells(),
            None => return false,
        };
        parent.child(edge).is_ok_and(|child| child == leaf)
    }
}

/// Which neighbour of a child a leaf is, and its position.
fn next_to(parent: &Page<'_>, child: usize, leaf: PageNo) -> Option<(Direction, usize)> {
    let is = |at: usize| parent.child(at).is_ok_and(|page| page == leaf);
    let before = child.checked_sub(1).filter(|&at| is(at)).map(|at| (Direction::Backward, at));
    before.or_else(|| Some((Direction::Forward, child + 1)).filter(|&(_, at)| is(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interior page of an index with these children.
    fn parent(children: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0u8; 4096];
        let (last, cells) = children.split_last().expect("children");
        bytes[0] = 2;
        bytes[3..5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
        bytes[8..12].copy_from_slice(&last.to_be_bytes());
        for (index, child) in cells.iter().enumerate() {
            let at = 4096 - 16 * (index + 1);
            bytes[12 + 2 * index..14 + 2 * index].copy_from_slice(&(at as u16).to_be_bytes());
            bytes[at..at + 4].copy_from_slice(&child.to_be_bytes());
        }
        bytes
    }

    /// The result at the last of these leaves, which belong to parents 2, 3, ...
    fn read(parents: &[&[u32]], leaves: &[u32]) -> Option<Direction> {
        let mut neighbours = Neighbours::default();
        let mut answer = None;
        for &leaf in leaves {
            let at = parents.iter().position(|children| children.contains(&leaf)).expect("a parent");
            let bytes = parent(parents[at]);
            let page = Page::parse(PageNo(2 + at as u32), &bytes, 4096).expect("sound");
            answer = neighbours.leaf(&page, PageNo(leaf));
        }
        answer
    }

    const LEAVES: [u32; 8] = [500, 90, 1700, 300, 45, 900, 120, 700];

    #[test]
    fn leaves_read_in_key_order_are_a_scan_at_the_fourth_step() {
        assert_eq!(read(&[&LEAVES], &LEAVES[..4]), None);
        assert_eq!(read(&[&LEAVES], &LEAVES[..5]), Some(Direction::Forward));
        let back: Vec<u32> = LEAVES.into_iter().rev().collect();
        assert_eq!(read(&[&LEAVES], &back[..5]), Some(Direction::Backward));
        // The same leaf again does not count.
        assert_eq!(read(&[&LEAVES], &[500, 90, 90, 1700, 300, 300, 45]), Some(Direction::Forward));
    }

    #[test]
    fn a_scan_goes_on_under_the_next_parent() {
        let (first, second) = LEAVES.split_at(4);
        assert_eq!(read(&[first, second], &LEAVES[1..6]), None);
        assert_eq!(read(&[first, second], &LEAVES[..7]), Some(Direction::Forward));
        // Not if the next parent is entered elsewhere.
        assert_eq!(read(&[first, second], &[500, 90, 1700, 300, 900, 120, 700]), None);
    }

    #[test]
    fn leaves_behind_each_other_in_the_file_are_left_to_the_kernel() {
        let leaves: Vec<u32> = (100..200).collect();
        assert_eq!(read(&[&leaves], &leaves), None);
        // Backward, the kernel reads nothing ahead.
        let back: Vec<u32> = leaves.iter().rev().copied().collect();
        assert_eq!(read(&[&leaves], &back), Some(Direction::Backward));
    }

    #[test]
    fn where_a_scan_cannot_begin_it_is_tried_ever_more_rarely() {
        let leaves: Vec<u32> = (1..200).map(|leaf| leaf * 100).collect();
        let bytes = parent(&leaves);
        let page = Page::parse(PageNo(2), &bytes, 4096).expect("sound");
        let mut neighbours = Neighbours::default();
        let mut tried = Vec::new();
        for &leaf in &leaves {
            if neighbours.leaf(&page, PageNo(leaf)).is_some() {
                tried.push(leaf / 100);
                neighbours.refused();
            }
        }
        assert_eq!(tried, [5, 13, 29, 61, 125]);
    }

    #[test]
    fn look_ups_are_no_scan() {
        assert_eq!(read(&[&LEAVES], &[500, 1700, 90, 45, 700, 300, 120, 900]), None);
        assert_eq!(read(&[&LEAVES], &[500, 90, 500, 90, 500, 90, 500, 90]), None);
    }
}
