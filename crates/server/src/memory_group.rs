//! A memory cgroup of a server's own, so that the pages that it brings into the page cache are charged to it and
//! limited with it.
//!
//! With version 2 the limit is `memory.high`: above it the kernel takes the group's own pages, the oldest first, and
//! slows the server down. With version 1 it is `memory.limit_in_bytes`, which takes pages in the same way; what a server
//! holds besides is too little to meet it.
//!
//! A server that is run in a group of its own already, as by systemd, has the limit set there, unless there is one. Otherwise
//! a group is made at the top of the hierarchy. It is left and removed at the end; one whose server was killed holds no process
//! and is removed by the next ([`MemoryGroup::remove`]).
//!
//! Limits: where the hierarchy cannot be written (a container) there is no group.

use crate::cgroup::{Hierarchy, own_hierarchies};
use crate::{CallError, Context, ignore_missing};
use std::fs;
use std::path::{Path, PathBuf};

/// See the module's documentation.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
    /// The group that this process was in; none where it stayed there.
    home: Option<PathBuf>,
    /// Whether its limit is the one that was asked for, and not one that was there.
    limited: bool,
}

impl MemoryGroup {
    /// Where a group would be made for this process of the server `name`; nothing where it cannot be, or need not.
    #[must_use]
    pub fn planned(name: &str) -> Option<PathBuf> {
        let hierarchy = usable(own_hierarchies())?;
        (!hierarchy.is_named(name)).then(|| hierarchy.mount.join(own_name(name)))
    }

    /// Moves this process into a group of its own, named for the server and the process, and limited to `limit_bytes`.
    ///
    /// # Errors
    /// It cannot be made, limited or entered; nothing of it stays.
    pub fn enter(name: &str, limit_bytes: u64) -> Result<Option<Self>, CallError> {
        let Some(hierarchy) = usable(own_hierarchies()) else { return Ok(None) };
        let own = hierarchy.mount.join(&hierarchy.own);
        let limit = hierarchy.limit();
        if hierarchy.is_named(name) {
            let file = own.join(limit);
            let unlimited = fs::read_to_string(&file).is_ok_and(|text| text.trim() == "max");
            if unlimited {
                fs::write(&file, limit_bytes.to_string()).context("limit", &file)?;
            }
            return Ok(Some(Self { path: own, home: None, limited: unlimited }));
        }
        let path = hierarchy.mount.join(own_name(name));
        if !path.is_dir() {
            fs::create_dir(&path).context("make", &path)?;
        }
        let enter = || {
            let file = path.join(limit);
            fs::write(&file, limit_bytes.to_string()).context("limit", &file)?;
            let procs = path.join("cgroup.procs");
            fs::write(&procs, std::process::id().to_string()).context("enter", &path)
        };
        if let Err(error) = enter() {
            let _ = fs::remove_dir(&path);
            return Err(error);
        }
        Ok(Some(Self { path, home: Some(own), limited: true }))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its limit is the one that was asked for: it says nothing about the memory that there is.
    #[must_use]
    pub fn is_limited_by_us(&self) -> bool {
        self.limited
    }

    /// Leaves it and removes it.
    ///
    /// # Errors
    /// It cannot be left or removed.
    pub fn leave(self) -> Result<(), CallError> {
        let Some(home) = self.home else { return Ok(()) };
        let procs = home.join("cgroup.procs");
        fs::write(&procs, std::process::id().to_string()).context("go back to", &home)?;
        Self::remove(&self.path)
    }

    /// Removes a group whose server has ended.
    ///
    /// # Errors
    /// Something is in it.
    pub fn remove(path: &Path) -> Result<(), CallError> {
        ignore_missing(fs::remove_dir(path)).context("remove", path)
    }
}

/// Several servers of one name may run, each with a run directory of its own.
fn own_name(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// The hierarchy in which memory can be limited: version 2 if it has the controller, else version 1.
fn usable(mut hierarchies: Vec<Hierarchy>) -> Option<Hierarchy> {
    hierarchies.sort_by_key(|hierarchy| hierarchy.limits.len() < 2);
    let has_memory = |file: PathBuf| {
        fs::read_to_string(file).is_ok_and(|text| text.split_ascii_whitespace().any(|it| it == "memory"))
    };
    hierarchies.into_iter().find(|hierarchy| {
        let is_two = hierarchy.limits.len() > 1;
        !is_two || has_memory(hierarchy.mount.join("cgroup.subtree_control"))
    })
}

impl Hierarchy {
    /// Whether this process is in a group that is named for the server.
    fn is_named(&self, name: &str) -> bool {
        let own = self.own.file_name().and_then(|own| own.to_str());
        own.is_some_and(|own| own == name || own.strip_suffix(".service") == Some(name))
    }

    /// The file that limits.
    fn limit(&self) -> &'static str {
        if self.limits.len() > 1 { "memory.high" } else { "memory.limit_in_bytes" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchy(own: &str, limits: &'static [&'static str], mount: &Path) -> Hierarchy {
        Hierarchy { mount: mount.to_owned(), own: own.into(), limits }
    }

    #[test]
    fn version_two_is_taken_where_it_limits_memory_and_the_own_unit_is_known() {
        let place = tempfile::tempdir().expect("a directory");
        let (two, one) = (place.path().join("two"), place.path().join("one"));
        fs::create_dir_all(&two).expect("made");
        let both = || {
            vec![
                hierarchy("a", &["memory.limit_in_bytes"], &one),
                hierarchy("a", &["memory.max", "memory.high"], &two),
            ]
        };
        assert_eq!(usable(both()).expect("one").mount, one);
        fs::write(two.join("cgroup.subtree_control"), "cpu memory\n").expect("written");
        assert_eq!(usable(both()).expect("two").limit(), "memory.high");
        assert!(usable(Vec::new()).is_none());
        let unit = hierarchy("system.slice/foreseek-watch.service", &["memory.max", "memory.high"], &two);
        assert!(unit.is_named("foreseek-watch") && !unit.is_named("foreseek"));
    }
}
