//! Which directories a program has entered that opens files without listing directories: it has a list of files
//! (`git grep`, a database of paths, a training job with a manifest).
//!
//! So has, for a while, a program whose opens of directories were not reported: then it is directories that it opens
//! here, and those above are passed on as [`Event::OpenedBelow`](crate::Event::OpenedBelow).
//!
//! Its tree is not known. What is known are the directories of its files and those above them. The first directory
//! begins a tree. Once the program opens a file elsewhere, the tree grows up to the nearest directory that holds both,
//! [`RISE`] levels at a time at most. The root of a file system is given only if files are opened right in it: it
//! holds everything, and says nothing about a program.
//!
//! Pure; bounded by [`TREES`].

use crate::Node;
use foreseek_seam::ProcessId;
use std::collections::VecDeque;

/// Trees that are remembered: more than the programs that open files at a time on a busy disk.
const TREES: usize = 64;
/// Levels by which a tree grows upwards at a time. A program that starts opens files all over the system, and these are
/// no tree.
const RISE: usize = 3;

/// A directory, and the one above it if it is known.
pub type Visited = (Node, Option<Node>);

/// What an open of a file, or of a directory, shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The directories to report, from the top down: [`Event::DirectoryEntered`](crate::Event::DirectoryEntered).
    pub visited: Vec<Visited>,
    /// How many files the process has opened in this tree.
    pub files: u64,
}

#[derive(Clone, Debug)]
struct Tree {
    pid: ProcessId,
    top: Node,
    files: u64,
    /// The directories above the top, from the nearest.
    above: Vec<Node>,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Entered {
    trees: VecDeque<Tree>,
}

impl Entered {
    /// A process opened a file in the first of these directories, or that directory. Each of the others holds the one before
    /// it, and the last is the root of the file system.
    pub fn opened(&mut self, pid: ProcessId, directories: &[Node]) -> Opened {
        let Some(first) = directories.first().copied() else {
            return Opened { visited: Vec::new(), files: 0 };
        };
        // The root is the top of a tree only if a file is opened right in it.
        let tops = &directories[..(directories.len() - 1).max(1)];
        let position = |node: Node| tops.iter().position(|it| *it == node);
        let own = self.trees.iter().position(|tree| tree.pid == pid && position(tree.top).is_some());
        if let Some(mut tree) = own.and_then(|at| self.trees.remove(at)) {
            let visited = downwards(directories, position(tree.top).unwrap_or(0));
            tree.files += 1;
            let files = tree.files;
            self.keep(tree);
            return Opened { visited, files };
        }
        let meets = |tree: &Tree| {
            let above = tree.above.iter().position(|it| position(*it).is_some())?;
            Some((above, position(tree.above[above])?))
        };
        let near = self.trees.iter().enumerate().filter(|(_, tree)| tree.pid == pid);
        let near = near.filter_map(|(at, tree)| Some((meets(tree)?, at))).min();
        let found = near.and_then(|((above, top), at)| Some((above, top, self.trees.remove(at)?)));
        let Some((above, top, tree)) = found else {
            self.keep(Tree { pid, top: first, files: 1, above: above_of(directories, 0) });
            return Opened { visited: downwards(directories, 0), files: 1 };
        };
        let mut visited = downwards(directories, top);
        // From below the new top down to the old one.
        let down: Vec<Node> = std::iter::once(tree.top).chain(tree.above.iter().copied()).collect();
        visited.splice(1..1, downwards(&down[..=above + 1], above));
        let files = tree.files + 1;
        self.keep(Tree { pid, top: directories[top], files, above: above_of(directories, top) });
        Opened { visited, files }
    }

    fn keep(&mut self, tree: Tree) {
        if self.trees.len() >= TREES {
            self.trees.pop_front();
        }
        self.trees.push_back(tree);
    }
}

fn above_of(directories: &[Node], top: usize) -> Vec<Node> {
    // Without the root.
    let end = directories.len() - 1;
    directories[..end].iter().skip(top + 1).take(RISE).copied().collect()
}

/// The directories from one of them down to the first, each with the one above it.
fn downwards(directories: &[Node], from: usize) -> Vec<Visited> {
    (0..=from).rev().map(|at| (directories[at], directories.get(at + 1).copied())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceNo;
    use proptest::prelude::*;

    const PID: ProcessId = ProcessId(1);

    fn nodes(inodes: &[u64]) -> Vec<Node> {
        inodes.iter().map(|inode| Node { device: DeviceNo(1), inode: *inode }).collect()
    }

    fn inodes(visited: &[Visited]) -> Vec<(u64, u64)> {
        visited.iter().map(|(node, parent)| (node.inode, parent.map_or(0, |parent| parent.inode))).collect()
    }

    #[test]
    fn a_tree_grows_up_to_what_holds_all_its_files() {
        let mut entered = Entered::default();
        let mut opened = |chain: &[u64]| inodes(&entered.opened(PID, &nodes(chain)).visited);
        assert_eq!(opened(&[40, 30, 20, 10, 2]), [(40, 30)]);
        assert_eq!(opened(&[40, 30, 20, 10, 2]), [(40, 30)], "again");
        // Beside it, and one level deeper.
        assert_eq!(opened(&[51, 41, 30, 20, 10, 2]), [(30, 20), (40, 30), (41, 30), (51, 41)]);
        // Two levels up: the old top is reached from the new one.
        assert_eq!(opened(&[60, 10, 2]), [(10, 2), (20, 10), (30, 20), (60, 10)]);
        assert_eq!(opened(&[70, 20, 10, 2]), [(10, 2), (20, 10), (70, 20)]);
        assert_eq!(opened(&[80, 2]), [(80, 2)], "below the root alone");
    }

    #[test]
    fn other_programs_and_far_directories_have_trees_of_their_own() {
        let mut entered = Entered::default();
        let far = nodes(&[60, 50, 40, 30, 20, 10, 2]);
        assert_eq!(inodes(&entered.opened(PID, &far).visited), [(60, 50)]);
        assert_eq!(inodes(&entered.opened(ProcessId(2), &nodes(&[61, 50, 40, 2])).visited), [(61, 50)]);
        assert_eq!(
            inodes(&entered.opened(PID, &nodes(&[21, 20, 10, 2])).visited),
            [(21, 20)],
            "four levels up"
        );
        assert_eq!(inodes(&entered.opened(PID, &nodes(&[2])).visited), [(2, 0)], "right in the root");
        assert!(entered.opened(PID, &[]).visited.is_empty());
        assert_eq!(entered.opened(PID, &far).files, 2);
    }

    proptest! {
        /// In any tree: each directory is reported below the one above it, that of the file among them, and the number
        /// of trees is bounded.
        #[test]
        fn directories_are_reported_from_the_top_down(
            parents in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
            opens in prop::collection::vec((any::<prop::sample::Index>(), 0..3u32), 1..200),
        ) {
            let parent: Vec<Option<usize>> =
                parents.iter().enumerate().map(|(at, it)| (at > 0).then(|| it.index(at))).collect();
            let node = |at: usize| Node { device: DeviceNo(1), inode: at as u64 + 1 };
            let mut entered = Entered::default();
            for (open, pid) in &opens {
                let first = open.index(parent.len());
                let chain: Vec<Node> = std::iter::successors(Some(first), |at| parent[*at]).map(node).collect();
                let visited = entered.opened(ProcessId(*pid), &chain).visited;
                let reported: Vec<Node> = visited.iter().map(|it| it.0).collect();
                prop_assert!(reported.contains(&chain[0]));
                for (at, (visited, above)) in visited.iter().enumerate() {
                    let above_it = parent[visited.inode as usize - 1].map(node);
                    prop_assert_eq!(above_it, *above);
                    prop_assert!(visited.inode > 1 || first == 0, "the root is no tree");
                    prop_assert!(at == 0 || above.is_some_and(|above| reported[..at].contains(&above)));
                }
                prop_assert!(entered.trees.len() <= TREES);
            }
        }
    }
}
