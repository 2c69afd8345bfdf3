//! The options of the measurement.

use super::program::{ALL, NamedProgram};
use super::record::On;
use super::tree::Tree;
use super::way::Way;
use crate::record::host;
use crate::{Error, Result};
use foreseek_rig::queue::Scheduler;
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Which trees.
    pub trees: Vec<Tree>,
    /// The programs; each runs on the trees that it is meant for.
    pub programs: Vec<NamedProgram>,
    /// In which ways; the stock one first.
    pub ways: Vec<Way>,
    /// How often each is measured.
    pub pairs: u32,
    /// Whether each pair has all of it. Otherwise what has no aim is run in the first pair alone.
    pub all_in_each_pair: bool,
    /// The share of a tree's files that is made.
    pub share: f64,
    /// The seed of the trees.
    pub seed: u64,
    /// Whether each pair has a new disk with new trees, of a seed of its own.
    pub new_trees: bool,
    /// The disk.
    pub profile: String,
    /// The disk's size.
    pub disk_size: Bytes,
    /// The factor on the disk's time.
    pub time_scale: f64,
    /// The file system.
    pub file_system: FileSystem,
    /// The share of it that is filled before trees are made.
    pub filled: f64,
    /// The I/O scheduler above the disk; none where it is `None`, as loop devices begin.
    pub scheduler: Option<Scheduler>,
    /// Where the emulated disk keeps its data, and where what is prepared for programs lies.
    pub disk_space: Option<PathBuf>,
    /// Where raw runs and the report go.
    pub out: PathBuf,
}

/// A file system that can be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// ext4.
    #[default]
    Ext4,
    /// XFS.
    Xfs,
}

impl std::str::FromStr for FileSystem {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "ext4" => Ok(Self::Ext4),
            "xfs" => Ok(Self::Xfs),
            _ => Err(Error::Option { what: format!("'{name}' is not measured: ext4, xfs") }),
        }
    }
}

/// Pairs below which nothing is decided.
pub const PAIRS: u32 = 5;
/// The disk.
pub const PROFILE: &str = "barracuda-500g";

impl Default for Options {
    fn default() -> Self {
        Self {
            trees: Tree::ALL.to_vec(),
            programs: ALL.iter().map(NamedProgram).collect(),
            ways: Way::USUAL.to_vec(),
            pairs: PAIRS,
            all_in_each_pair: false,
            share: 1.0,
            seed: 1,
            new_trees: true,
            profile: PROFILE.to_owned(),
            disk_size: Bytes::gib(64),
            time_scale: 1.0,
            file_system: FileSystem::Ext4,
            filled: 0.0,
            scheduler: None,
            disk_space: None,
            out: PathBuf::from("bench-walk"),
        }
    }
}

impl Options {
    /// A short measurement, within 20 minutes: a tenth of the files, two trees, few programs, one pair.
    #[must_use]
    pub fn quick(self) -> Self {
        let programs = ["tar", "grep", "rsync-dry-run", "du", "sha256sum"];
        let programs = ALL.iter().filter(|program| programs.contains(&program.name)).map(NamedProgram);
        Self {
            trees: vec![Tree::Fresh, Tree::Aged],
            programs: programs.collect(),
            ways: vec![Way::Stock, Way::Warm, Way::Watch],
            pairs: 1,
            share: 0.1,
            ..self
        }
    }

    /// # Errors
    /// [`Error::Option`] for values that are not valid.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::Option { what: what.to_owned() });
        if !(0.0005..=4.0).contains(&self.share) {
            return wrong("--share must lie between 0.0005 and 4: the share of the files that a tree has");
        }
        if !(self.time_scale > 0.0 && self.time_scale <= 10.0) {
            return wrong("--time-scale must be greater than 0 and at most 10");
        }
        if !(0.0..=0.98).contains(&self.filled) {
            return wrong(
                "--filled must lie between 0 and 0.98: the share of the file system that is in use before trees are made",
            );
        }
        if self.pairs == 0 || self.trees.is_empty() || self.programs.is_empty() {
            return wrong("nothing is to be measured: name at least one tree, one program and one pair");
        }
        if let Some(why) = self.trees.iter().map(|tree| self.too_small(*tree)).collect::<Option<Vec<_>>>() {
            return wrong(&why.join("; "));
        }
        if self.ways.first() != Some(&Way::Stock) {
            return wrong("--ways begins with 'stock', which the others are compared with");
        }
        if self.disk_size < Bytes::gib(1) {
            return wrong("--disk-size must be at least 1 GiB");
        }
        Ok(())
    }

    /// Why a tree cannot be what it is with this share of its files.
    pub(crate) fn too_small(&self, tree: Tree) -> Option<String> {
        let (name, least) = (tree.name(), tree.least_share());
        (self.share < least).then(|| {
            format!(
                "the tree '{name}' needs a --share of at least {least}: a smaller one is not four times the least memory in which programs run"
            )
        })
    }

    /// The seed of the trees of a pair.
    pub(crate) fn seed_of(&self, pair: u32) -> u64 {
        if self.new_trees { self.seed.wrapping_add(u64::from(pair)) } else { self.seed }
    }

    /// Whether a program over a tree is run in a way (`None`: one pass) in a pair. A program that reads ext4 from its block
    /// device reads no mount.
    pub(crate) fn is_run(&self, pair: u32, cell: On, way: Option<Way>) -> bool {
        if way == Some(Way::Mount) && cell.program.0.only_ext {
            return false;
        }
        let has_aim = cell.tree.has_aim() && cell.program.0.has_aim();
        let is_another_read_ahead = way.is_some_and(Way::is_another_read_ahead);
        let beside = is_another_read_ahead || way == Some(Way::Mount);
        // It takes the time of stock: the files of this tree are smaller than the usual read-ahead.
        let is_known = is_another_read_ahead && cell.tree == Tree::Maildir;
        self.all_in_each_pair || (has_aim && !beside) || (pair == 0 && !is_known)
    }

    /// Trees with the programs that run on them.
    pub(crate) fn cells(&self) -> Vec<On> {
        let of = |tree: Tree| {
            let reads = self.programs.iter().filter(move |named| {
                named.0.reads(tree) && (self.file_system == FileSystem::Ext4 || !named.0.only_ext)
            });
            reads.map(move |named| On { tree, program: *named })
        };
        self.trees.iter().flat_map(|tree| of(*tree)).collect()
    }
}

/// The settings that must be the same for all runs of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    profile: String,
    disk_bytes: u64,
    time_scale: f64,
    file_system: FileSystem,
    #[serde(default, skip_serializing_if = "is_zero")]
    filled: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scheduler: Option<Scheduler>,
    share: f64,
    seed: u64,
    /// See [`Options::new_trees`]; rows without it are of trees that were made once.
    #[serde(default)]
    pub(crate) new_trees: bool,
    host: String,
}

impl Plan {
    /// The plan of these options on this machine.
    #[must_use]
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            profile: options.profile.clone(),
            disk_bytes: options.disk_size.get(),
            time_scale: options.time_scale,
            file_system: options.file_system,
            filled: options.filled,
            scheduler: options.scheduler,
            share: options.share,
            seed: options.seed,
            new_trees: options.new_trees,
            host: host(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_on_the_trees_that_they_are_meant_for() {
        let cells = Options::default().cells();
        let on = |tree| cells.iter().filter(|cell| cell.tree == tree).count();
        assert_eq!((on(Tree::Fresh), on(Tree::Aged), on(Tree::Media)), (ALL.len(), 5, 5));
        let xfs = Options { file_system: FileSystem::Xfs, ..Options::default() };
        assert!(xfs.cells().iter().all(|cell| cell.program.0.name != "dump"));
    }

    #[test]
    fn what_has_no_aim_is_run_once_or_in_each_pair() {
        let runs = |all_in_each_pair, tree, program: &str, way| {
            let options = Options { all_in_each_pair, ..Options::default() };
            let cell = On { tree, program: program.parse().expect("known") };
            [0, 1].map(|pair| options.is_run(pair, cell, way))
        };
        let (each, once, never) = ([true; 2], [true, false], [false; 2]);
        for (tree, program, way, expected) in [
            (Tree::Fresh, "tar", Some(Way::Watch), each),
            (Tree::Fresh, "tar", None, each),
            (Tree::Aged, "tar", Some(Way::Mount), once),
            (Tree::Fresh, "shuffled", Some(Way::Watch), once),
            (Tree::Maildir, "tar", Some(Way::Watch), once),
            (Tree::Maildir, "tar", Some(Way::Mount), once),
            (Tree::Maildir, "tar", Some(Way::Stock4M), never),
            (Tree::Media, "tar", Some(Way::Stock4M), once),
            (Tree::Fresh, "fclones", Some(Way::Stock), each),
            (Tree::Fresh, "two-tars", Some(Way::Warm), each),
        ] {
            assert_eq!(runs(false, tree, program, way), expected, "{program}");
            assert_eq!(runs(true, tree, program, way), each, "{program}");
        }
        let over_mount = |program| runs(true, Tree::Fresh, program, Some(Way::Mount));
        assert_eq!((over_mount("dump"), over_mount("tar")), (never, each), "dump reads a block device");
    }

    #[test]
    fn rows_without_a_scheduler_or_a_filler_were_measured_with_none() {
        let plan = |scheduler, filled| Plan::of(&Options { scheduler, filled, ..Options::default() });
        let [none, some] = [(None, 0.0), (Some(Scheduler::Bfq), 0.5)]
            .map(|(scheduler, filled)| serde_json::to_string(&plan(scheduler, filled)).expect("JSON"));
        assert!(!none.contains("scheduler") && some.contains(r#""scheduler":"bfq""#), "{none} {some}");
        assert!(!none.contains("filled") && some.contains(r#""filled":0.5"#), "{none} {some}");
        assert_eq!(serde_json::from_str::<Plan>(&none).expect("a plan"), plan(None, 0.0));
    }

    #[test]
    fn trees_of_each_pair_have_a_seed_of_their_own() {
        let options = Options { seed: u64::MAX, ..Options::default() };
        assert_eq!([0, 1, 2].map(|pair| options.seed_of(pair)), [u64::MAX, 0, 1]);
        let same = Options { new_trees: false, ..options };
        assert_eq!([0, 1, 2].map(|pair| same.seed_of(pair)), [u64::MAX; 3]);
    }

    #[test]
    fn rows_that_do_not_tell_are_of_the_same_trees() {
        let old = r#"{"profile":"p","disk_bytes":1,"time_scale":1.0,"file_system":"ext4","share":0.2,"seed":1,"host":"h"}"#;
        let plan: Plan = serde_json::from_str(old).expect("a plan");
        assert!(!plan.new_trees);
        for new_trees in [true, false] {
            let plan = Plan::of(&Options { new_trees, ..Options::default() });
            let line = serde_json::to_string(&plan).expect("JSON");
            assert!(line.contains(&format!(r#""new_trees":{new_trees}"#)), "{line}");
            assert_eq!(serde_json::from_str::<Plan>(&line).expect("a plan"), plan);
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_is_accepted() {
        let good = Options::default();
        assert!(good.check().is_ok() && good.clone().quick().check().is_ok());
        assert!(Options { share: 0.3, ..good.clone() }.check().is_ok(), "the other trees are measured");
        let wrong = [
            (Options { share: 0.0, ..good.clone() }, "--share"),
            (Options { share: 0.8, trees: vec![Tree::Large], ..good.clone() }, "'large' needs a --share"),
            (Options { time_scale: f64::NAN, ..good.clone() }, "--time-scale"),
            (Options { filled: 1.0, ..good.clone() }, "--filled"),
            (Options { pairs: 0, ..good.clone() }, "at least one"),
            (Options { ways: vec![Way::Watch], ..good.clone() }, "stock"),
        ];
        for (options, what) in wrong {
            let error = options.check().expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
