//! Periodic checks while an array is served. Prefetching pauses in two cases:
//!
//! - while md copies or checks the contents of its members, which prefetches would delay;
//! - after the array's shape has changed, since strips are then cut at wrong places.
//!
//! A device below whose length has changed since it was attached is reported.

use crate::below::Below;
use crate::found::Found;
use crate::served::Served;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// The period of the checks: a resync takes hours, and a check reads a few files of sysfs.
const BETWEEN: Duration = Duration::from_secs(2);

/// Checks until it is dropped.
pub(crate) struct PauseWatch {
    _end: Sender<()>,
}

impl PauseWatch {
    /// Starts the checks of an array over `below`; `shape` is the reported layout of its strips, if that was
    /// used.
    pub(crate) fn start(served: Weak<Served>, below: Arc<Below>, shape: Option<Found>) -> io::Result<Self> {
        let (end, ended) = channel();
        thread::Builder::new().name("array-pause".to_owned()).spawn(move || {
            while let Some(served) = served.upgrade() {
                let now = || shape.map(|shape| (shape, below.shape(Some(shape.level))));
                served.pause(reason(below.array(), now));
                served.below_now(below.length_now().ok());
                drop(served);
                if ended.recv_timeout(BETWEEN) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Self { _end: end })
    }
}

/// Why prefetching has to pause. `now` returns the array's shape at the attach and its current one, if it was
/// reported.
fn reason(
    array: Option<&Path>,
    now: impl FnOnce() -> Option<(Found, Result<Found, String>)>,
) -> Option<String> {
    let action = fs::read_to_string(array?.join("md/sync_action")).unwrap_or_default();
    match action.trim() {
        "" | "idle" | "frozen" => {}
        action => return Some(format!("md does a {action} ('cat /proc/mdstat' shows how far it is)")),
    }
    let (shape, now) = now()?;
    match now {
        Ok(now) if now == shape => None,
        Ok(now) => Some(format!(
            "the array has been reshaped to {} members and strips of {}: detach it and attach it again",
            now.members, now.strip
        )),
        Err(why) => Some(format!("{why}; once that is over, detach it and attach it again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found;
    use foreseek_units::{Bytes, Level};

    #[test]
    fn it_pauses_while_md_works_and_after_a_reshape() {
        let place = tempfile::tempdir().expect("a directory");
        let md = place.path().join("md");
        fs::create_dir(&md).expect("a directory");
        let write = |name: &str, text: &str| fs::write(md.join(name), text).expect("a file");
        let files = [
            ("level", "raid5"),
            ("chunk_size", "65536"),
            ("raid_disks", "4"),
            ("layout", "2"),
            ("sync_action", "idle"),
        ];
        files.iter().for_each(|(name, text)| write(name, text));
        let shape = Found { strip: Bytes::kib(64), members: 4, level: Level::Raid5, copies: 1 };
        let look = || Some((shape, found::geometry(place.path(), Some(shape.level))));
        let now = || reason(Some(place.path()), look);
        assert_eq!(now(), None);
        for action in ["resync", "recover", "check", "repair"] {
            write("sync_action", &format!("{action}\n"));
            assert!(now().is_some_and(|why| why.contains(action)), "{action}");
        }
        write("sync_action", "idle\n");
        write("raid_disks", "5\n");
        assert!(now().is_some_and(|why| why.contains("5 members") && why.contains("attach it again")));
        assert_eq!(reason(Some(place.path()), || None), None, "its shape was given by hand");
        assert_eq!(reason(None, look), None, "a file");
        write("raid_disks", "4 (5)\n");
        assert!(now().is_some_and(|why| why.contains("attach it again")));
    }
}
