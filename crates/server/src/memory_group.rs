//! A memory cgroup for a server, which is charged for the pages that it brings into the page cache and limits
//! them.
//!
//! With version 2 the limit is `memory.high`: above it the kernel reclaims the group's own pages, the oldest
//! first, and throttles the server. With version 1 it is `memory.limit_in_bytes`, which reclaims pages in the
//! same way; the server's other memory is far below the limit.
//!
//! If a server already runs in a group of its own, as under systemd, the limit is set there, unless it has
//! one. Otherwise a group is created at the top of the hierarchy. At the end the server leaves and removes
//! it. The group of a killed server has no process and is removed by the next server
//! ([`MemoryGroup::remove`]).
//!
//! Limits: where the hierarchy cannot be written (a container) there is no group.

use crate::cgroup::{Hierarchy, is_limited, own_hierarchies};
use crate::{CallError, Context, ignore_missing};
use std::fs;
use std::path::{Path, PathBuf};

/// See the module's documentation.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
    /// The previous group of this process; `None` where it stayed in its group.
    home: Option<PathBuf>,
    /// Whether this process set its limit, rather than an administrator.
    limited: bool,
}

impl MemoryGroup {
    /// The group that would be created for this process of the server `name`; `None` where it cannot be
    /// created or need not be.
    #[must_use]
    pub fn planned(name: &str) -> Option<PathBuf> {
        let hierarchy = usable(own_hierarchies())?;
        (!hierarchy.is_named(name)).then(|| hierarchy.mount.join(own_name(name)))
    }

    /// Moves this process into a new group, named after the server and the process and limited to
    /// `limit_bytes`.
    ///
    /// # Errors
    /// It cannot be created, limited or entered; nothing remains of it.
    pub fn enter(name: &str, limit_bytes: u64) -> Result<Option<Self>, CallError> {
        let Some(hierarchy) = usable(own_hierarchies()) else { return Ok(None) };
        let own = hierarchy.mount.join(&hierarchy.own);
        let limit = hierarchy.limit();
        if hierarchy.is_named(name) {
            let file = own.join(limit);
            let unlimited = fs::read_to_string(&file).is_ok_and(|text| is_limited(&text) == Some(false));
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

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this process set its limit: the limit then says nothing about the available memory.
    #[must_use]
    pub fn has_own_limit(&self) -> bool {
        self.limited
    }

    /// Leaves it and removes it.
    ///
    /// # Errors
    /// It cannot be left or removed.
    pub fn leave(self) -> Result<(), CallError> {
        let Some(home) = self.home else { return Ok(()) };
        let procs = home.join("cgroup.procs");
        fs::write(&procs, std::process::id().to_string()).context("return to", &home)?;
        Self::remove(&self.path)
    }

    /// Removes a group whose server has ended.
    ///
    /// # Errors
    /// It is not empty.
    pub fn remove(path: &Path) -> Result<(), CallError> {
        ignore_missing(fs::remove_dir(path)).context("remove", path)
    }
}

/// Several servers of one name may run, each with its own run directory.
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
    /// Whether the group of this process has the server's name.
    fn is_named(&self, name: &str) -> bool {
        let own = self.own.file_name().and_then(|own| own.to_str());
        own.is_some_and(|own| own == name || own.strip_suffix(".service") == Some(name))
    }

    /// The file with the limit.
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
        let is_unlimited = |text| is_limited(text) == Some(false);
        assert!(is_unlimited("max\n") && is_unlimited("9223372036854771712\n"));
        assert!(!is_unlimited("68719476736\n") && !is_unlimited(""));
        let unit = hierarchy("system.slice/foreseek-watch.service", &["memory.max", "memory.high"], &two);
        assert!(unit.is_named("foreseek-watch") && !unit.is_named("foreseek"));
    }
}
