//! The daemon that reads ahead of tree walks, in virtual time: the engine of `foreseek watch` and the workers
//! that carry out its commands.
//!
//! [`Watch`] has the [`Walks`] engine and turns what a machine sees into its events. Two [`Worker`]s, processes
//! of the machine, carry out its commands by system calls: one lists directories and finds the extents of
//! files, the other fetches. Inodes and blocks of directories are fetched through the device, contents by
//! advice.

use crate::program::{Answer, FileNumber, FileSpec, Handle, Program, Question, ROOT, Step};
use crate::workload::Metadata;
use crate::workload::walk::name;
use foreseek_seam::{Extent, FetchId, ProcessId};
use foreseek_units::{Bytes, Instant, PageIndex, PageSpan, Pages, SECTORS_PER_PAGE, Span};
use foreseek_walks::{
    Command, Commands, DeviceNo, Entry, Event, InodeFetch, InodeReads, Kind, Node, Outcome, Part, Placed,
    Status, Walks,
};
use rand_core::Rng;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The inode of the root.
const ROOT_INODE: u64 = 2;

/// The fetching worker's handles of the device and of any file.
const DEVICE: Handle = Handle(0);
const FILE: Handle = Handle(1);

/// An action of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It opened a directory to list it.
    Listed(u32),
    /// It opened a file.
    Opened(FileNumber),
}

/// The kind of a node.
#[derive(Clone, Copy, Debug)]
enum Is {
    File(FileNumber),
    Directory(u32),
}

/// The tree, with what a file system knows of it.
pub struct Tree {
    /// The files of each directory in the order of its listing.
    pub listings: Arc<Vec<Vec<FileNumber>>>,
    /// The directories in the order of the root's listing.
    pub directories: Vec<u32>,
    /// The files.
    pub files: Vec<FileSpec>,
    /// The extents of each file.
    pub extents: Vec<Vec<Extent>>,
    /// The places of inodes and directories.
    pub metadata: Metadata,
}

impl Tree {
    fn file(&self, file: FileNumber) -> Node {
        node(self.metadata.inode(file).map_or(0, |(inode, _)| inode.number))
    }

    fn directory(&self, directory: u32) -> Node {
        if directory == ROOT {
            return node(ROOT_INODE);
        }
        node(self.metadata.all_directories().get(&directory).map_or(0, |known| known.inode.number))
    }

    /// The page that holds an inode.
    fn page(&self, is: Is) -> Option<PageIndex> {
        match is {
            Is::File(file) => self.metadata.inode(file).map(|(inode, _)| inode.page),
            Is::Directory(directory) => {
                self.metadata.all_directories().get(&directory).map(|known| known.inode.page)
            }
        }
    }
}

fn node(inode: u64) -> Node {
    Node { device: DeviceNo(0), inode }
}

/// The daemon.
pub struct Watch {
    engine: Walks,
    out: Commands,
    /// Commands for the two workers.
    names: VecDeque<Command>,
    fetches: VecDeque<Command>,
    tree: Arc<Tree>,
    by_inode: Arc<FxHashMap<u64, Is>>,
    /// Directories whose opened files are reported.
    attended: FxHashSet<u32>,
}

/// The daemon, locked.
pub(crate) fn locked(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// A daemon over a tree.
    #[must_use]
    pub fn new(engine: Walks, tree: Tree) -> Self {
        let mut by_inode = FxHashMap::default();
        by_inode.insert(ROOT_INODE, Is::Directory(ROOT));
        for file in (0..tree.files.len() as u32).map(FileNumber) {
            by_inode.insert(tree.file(file).inode, Is::File(file));
        }
        for directory in tree.metadata.all_directories().keys() {
            by_inode.insert(tree.directory(*directory).inode, Is::Directory(*directory));
        }
        Self {
            engine,
            out: Commands::new(),
            names: VecDeque::new(),
            fetches: VecDeque::new(),
            tree: Arc::new(tree),
            by_inode: Arc::new(by_inode),
            attended: FxHashSet::default(),
        }
    }

    /// The engine's status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// An action of a process; returns whether it was reported.
    pub(crate) fn seen(&mut self, now: Instant, pid: ProcessId, what: Seen) -> bool {
        let tree = Arc::clone(&self.tree);
        match what {
            Seen::Listed(directory) => {
                let parent = (directory != ROOT).then(|| tree.directory(ROOT));
                let directory = tree.directory(directory);
                self.notify(now, Event::DirectoryOpened { pid, directory, parent });
            }
            Seen::Opened(file) => {
                let Some((_, directory)) = tree.metadata.inode(file) else { return false };
                if !self.attended.contains(&directory) {
                    return false;
                }
                let (directory, file) = (tree.directory(directory), tree.file(file));
                self.notify(now, Event::FileOpened { pid, directory, file });
            }
        }
        true
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.names.is_empty() || !self.fetches.is_empty()
    }

    fn notify(&mut self, now: Instant, event: Event<'_>) {
        self.engine.on(now, event, &mut self.out);
        loop {
            let commands: Vec<Command> = self.out.drain().collect();
            for command in commands {
                self.take(now, command);
            }
            if self.engine.deadline().is_none_or(|deadline| deadline > now) {
                return;
            }
            self.engine.on(now, Event::Tick, &mut self.out);
        }
    }

    fn take(&mut self, now: Instant, command: Command) {
        match command {
            Command::List { .. } | Command::Place { .. } => self.names.push_back(command),
            Command::Fetch { .. } | Command::FetchMetadata { .. } => self.fetches.push_back(command),
            Command::WatchOpens { directory, on } => {
                let Some(Is::Directory(number)) = self.by_inode.get(&directory.inode) else { return };
                if on {
                    self.attended.insert(*number);
                } else {
                    self.attended.remove(number);
                }
            }
            Command::Cancel { fetch } => self.cancel(now, fetch),
            // Names are the tree's.
            Command::Forget { .. } => {}
        }
    }

    /// Cancels a fetch that has not begun.
    fn cancel(&mut self, now: Instant, cancelled: FetchId) {
        let before = self.fetches.len();
        self.fetches.retain(|command| match command {
            Command::Fetch { fetch, .. } | Command::FetchMetadata { fetch, .. } => *fetch != cancelled,
            _ => true,
        });
        if self.fetches.len() < before {
            let (fetched_bytes, outcome) = (Bytes::ZERO, Outcome::Partly);
            self.notify(now, Event::Done { fetch: cancelled, fetched_bytes, outcome });
        }
    }
}

/// A thread of the daemon.
pub struct Worker {
    watch: Arc<Mutex<Watch>>,
    tree: Arc<Tree>,
    by_inode: Arc<FxHashMap<u64, Is>>,
    fetches: bool,
    steps: VecDeque<Step>,
    /// The command of the current steps.
    doing: Option<Command>,
    /// The resident pages of each file, as answers came.
    resident: Vec<Vec<PageSpan>>,
}

impl Worker {
    /// The workers of a daemon.
    pub(crate) fn all(watch: &Arc<Mutex<Watch>>) -> [Self; 2] {
        [false, true].map(|fetches| {
            let held = locked(watch);
            let device = FileNumber(held.tree.files.len() as u32);
            let open = Step::Open { handle: DEVICE, file: device, announced: None };
            Self {
                watch: Arc::clone(watch),
                tree: Arc::clone(&held.tree),
                by_inode: Arc::clone(&held.by_inode),
                fetches,
                steps: if fetches { VecDeque::from([open]) } else { VecDeque::new() },
                doing: None,
                resident: Vec::new(),
            }
        })
    }

    fn is(&self, node: Node) -> Option<Is> {
        self.by_inode.get(&node.inode).copied()
    }

    /// Takes the next command and its steps; returns false if there is none.
    fn begin(&mut self) -> bool {
        let mut watch = locked(&self.watch);
        let next = if self.fetches { watch.fetches.pop_front() } else { watch.names.pop_front() };
        drop(watch);
        let Some(command) = next else { return false };
        match &command {
            // A program of the simulator lists what it opens.
            Command::List { directory, condition: _ } => {
                if let Some(Is::Directory(directory)) = self.is(directory.node) {
                    self.steps.push_back(Step::List { directory });
                }
            }
            Command::Place { files } => {
                for file in files {
                    if let Some(Is::File(file)) = self.is(file.node) {
                        let pages = self.tree.files[file.0 as usize].length.pages_ceil();
                        let question = Question::Resident(Span::at(PageIndex::ZERO, pages));
                        self.with_file(file, Step::Ask { handle: FILE, question });
                    }
                }
            }
            Command::FetchMetadata { nodes, .. } => {
                for pages in self.inodes(nodes) {
                    self.steps.push_back(Step::Advise { handle: DEVICE, pages });
                }
            }
            Command::Fetch { parts, .. } => parts.iter().for_each(|part| self.fetch(*part)),
            Command::WatchOpens { .. } | Command::Cancel { .. } | Command::Forget { .. } => {}
        }
        self.doing = Some(command);
        true
    }

    /// What is read for these inodes.
    fn inodes(&self, nodes: &[InodeFetch]) -> Vec<PageSpan> {
        let metadata = &self.tree.metadata;
        let pages =
            nodes.iter().filter_map(|it| Some((self.tree.page(self.is(it.which.node)?)?, it.together)));
        let span =
            |(page, together)| if together { metadata.around(page) } else { PageSpan::at(page, Pages(1)) };
        runs(pages.flat_map(|page| span(page).iter()).collect())
    }

    fn fetch(&mut self, part: Part) {
        match self.is(part.file.node) {
            Some(Is::File(file)) => self.with_file(file, Step::Advise { handle: FILE, pages: part.pages }),
            Some(Is::Directory(_)) => {
                let first = PageIndex(part.lba.get() / SECTORS_PER_PAGE);
                let pages = Span::at(first, part.pages.len());
                self.steps.push_back(Step::Advise { handle: DEVICE, pages });
            }
            None => {}
        }
    }

    fn with_file(&mut self, file: FileNumber, step: Step) {
        let open = Step::Open { handle: FILE, file, announced: None };
        self.steps.extend([open, step, Step::Close { handle: FILE }]);
    }

    /// The command's steps are complete: reports to the engine.
    fn finish(&mut self, now: Instant, command: &Command) {
        match command {
            Command::List { directory, .. } => self.listed(now, directory.node),
            Command::Place { files } => {
                let nodes: Vec<Node> = files.iter().map(|file| file.node).collect();
                self.placed(now, &nodes);
            }
            Command::FetchMetadata { fetch, nodes } => {
                let fetched_bytes: Pages = self.inodes(nodes).iter().map(|run| run.len()).sum();
                self.done(now, *fetch, fetched_bytes.bytes());
            }
            Command::Fetch { fetch, parts } => {
                let fetched_bytes: Pages = parts.iter().map(|part| part.pages.len()).sum();
                self.done(now, *fetch, fetched_bytes.bytes());
            }
            Command::WatchOpens { .. } | Command::Cancel { .. } | Command::Forget { .. } => {}
        }
    }

    fn done(&self, now: Instant, fetch: FetchId, fetched_bytes: Bytes) {
        locked(&self.watch).notify(now, Event::Done { fetch, fetched_bytes, outcome: Outcome::Arrived });
    }

    fn listed(&self, now: Instant, directory: Node) {
        let Some(Is::Directory(number)) = self.is(directory) else {
            return locked(&self.watch).notify(now, Event::Unlistable { directory });
        };
        let tree = &self.tree;
        let listed: Vec<(Is, Kind, u32)> = if number == ROOT {
            tree.directories.iter().map(|below| (Is::Directory(*below), Kind::Directory, *below)).collect()
        } else {
            let files = tree.listings.get(number as usize).map_or(&[][..], |files| files);
            files.iter().map(|file| (Is::File(*file), Kind::File, file.0)).collect()
        };
        let names: Vec<[u8; 8]> = listed.iter().map(|(_, _, number)| name(*number)).collect();
        let entries: Vec<Entry<'_>> = listed
            .iter()
            .zip(&names)
            .map(|((is, kind, _), name)| Entry {
                node: match *is {
                    Is::File(file) => tree.file(file),
                    Is::Directory(directory) => tree.directory(directory),
                },
                kind: *kind,
                name,
                inode_at: tree.page(*is).map(|page| foreseek_units::Lba(page.get() * SECTORS_PER_PAGE)),
                // A list of the simulator does not look into the cache.
                inode_in_memory: false,
            })
            .collect();
        let inodes = InodeReads { together: tree.metadata.read_together(), ..InodeReads::EXT4 };
        locked(&self.watch).notify(now, Event::Listed { directory, entries: &entries, inodes });
    }

    fn placed(&mut self, now: Instant, nodes: &[Node]) {
        let mut resident = std::mem::take(&mut self.resident).into_iter();
        let found: Vec<(Node, Bytes, Pages, Vec<Extent>)> = nodes
            .iter()
            .map(|node| match self.is(*node) {
                Some(Is::File(file)) => {
                    let runs = resident.next().unwrap_or_default();
                    let length = self.tree.files[file.0 as usize].length;
                    let missing = without(&self.tree.extents[file.0 as usize], &runs);
                    (*node, length, runs.iter().map(|run| run.len()).sum(), missing)
                }
                Some(Is::Directory(directory)) => {
                    let known = self.tree.metadata.all_directories().get(&directory);
                    let blocks = known.map_or(&[][..], |known| &known.blocks);
                    let extents = (0..).zip(blocks).map(|(page, block)| Extent {
                        page: PageIndex(page),
                        pages: Pages(1),
                        lba: foreseek_units::Lba(block.get() * SECTORS_PER_PAGE),
                    });
                    (*node, Pages(blocks.len() as u64).bytes(), Pages::ZERO, extents.collect())
                }
                None => (*node, Bytes::ZERO, Pages::ZERO, Vec::new()),
            })
            .collect();
        let files: Vec<Placed<'_>> = found
            .iter()
            .map(|(file, length, resident, missing)| Placed {
                file: *file,
                length: *length,
                resident: *resident,
                residency_known: true,
                missing,
            })
            .collect();
        locked(&self.watch).notify(now, Event::Placed { files: &files });
    }
}

impl Program for Worker {
    fn next(&mut self, now: Instant, _random: &mut dyn Rng) -> Step {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return step;
            }
            if let Some(command) = self.doing.take() {
                self.finish(now, &command);
            }
            if !self.begin() {
                return Step::Await;
            }
        }
    }

    fn answered(&mut self, answer: Answer<'_>) {
        if let Answer::Resident(runs) = answer {
            self.resident.push(runs.to_vec());
        }
    }

    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
}

/// Pages in order as runs.
fn runs(mut pages: Vec<PageIndex>) -> Vec<PageSpan> {
    pages.sort_unstable();
    pages.dedup();
    let mut runs: Vec<PageSpan> = Vec::new();
    for page in pages {
        match runs.last_mut().filter(|run| run.end == page) {
            Some(run) => run.end = page.next(),
            None => runs.push(Span::at(page, Pages(1))),
        }
    }
    runs
}

/// The parts of some extents that are not in memory.
fn without(extents: &[Extent], resident: &[PageSpan]) -> Vec<Extent> {
    let mut missing = Vec::new();
    for extent in extents {
        let mut from = extent.page;
        let end = extent.page + extent.pages;
        let mut push = |from: PageIndex, to: PageIndex| {
            if from < to {
                let lba = extent.lba + (from - extent.page).sectors();
                missing.push(Extent { page: from, pages: to - from, lba });
            }
        };
        for run in resident {
            let within = run.intersection(PageSpan::new(from, end));
            if !within.is_empty() {
                push(from, within.start);
                from = within.end;
            }
        }
        push(from, end);
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::Lba;

    #[test]
    fn what_is_in_memory_is_left_out_of_extents() {
        let extents = [Extent { page: PageIndex(0), pages: Pages(10), lba: Lba(80) }];
        let span = |start, end| PageSpan::new(PageIndex(start), PageIndex(end));
        let missing = without(&extents, &[span(0, 2), span(4, 5), span(9, 12)]);
        let found: Vec<(u64, u64, u64)> =
            missing.iter().map(|piece| (piece.page.get(), piece.pages.get(), piece.lba.get())).collect();
        assert_eq!(found, [(2, 2, 96), (5, 4, 120)]);
    }
}
