//! Which directories and files programs open, by file handle, and which files they close, as fanotify reports it to
//! root. Closes have a module of their own ([`CloseWatch`]).
//!
//! Two groups are needed for opens. Within one group the kernel joins the ignore masks of all marks that match an event
//! (`fanotify_group_event_mask` in fs/notify/fanotify/fanotify.c). If the file system mark of a group ignores
//! opens of files, no other mark of the group reports them.
//!
//! * [`Group::of_directories`]: a mark on a whole file system with an ignore mask for all but directories.
//!   The kernel drops opens of files before it creates an event.
//! * [`Group::of_files`]: marks on single directories, for opens of the files in them. The marks are
//!   evictable (Linux 6.0): they pin no inode, and vanish with it.
//!
//! A mark on a file system covers every program and every mount of it: bind mounts, containers, the lower
//! layers of overlayfs. No mark keeps a file system from being unmounted. The groups only take notifications
//! (`FAN_CLASS_NOTIF`): no program waits for this one.
//!
//! Limits: Linux 6.0 and CAP_SYS_ADMIN. The kernel's queue holds 16,384 events by default
//! (`fs.fanotify.max_queued_events`); further events are lost, and one event reports the loss. Queued events
//! of one object by one process are merged. `stat`, `access` and `O_PATH` cause no event.

mod closes;
mod events;
mod group;

pub use closes::{CloseWatch, Closed};
pub use events::{Event, Events, FileSystemId};
pub use group::{Group, Marker, OpenEvent};
