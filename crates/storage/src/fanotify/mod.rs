//! Which directories and files programs open, by file handle, as fanotify reports it to root.
//!
//! Two groups are needed. In one group the kernel joins the ignore masks of all marks that meet an
//! event (`fanotify_group_event_mask` in fs/notify/fanotify/fanotify.c), so a group whose file system mark
//! ignores opens of files can see them through no other mark.
//!
//! * [`Group::of_directories`]: a mark on a whole file system with an ignore mask for what is no
//!   directory. The kernel drops opens of files before it makes an event of them.
//! * [`Group::of_files`]: marks on single directories, for opens of the files in them. The marks are
//!   evictable (Linux 6.0): they keep no inode in memory, and vanish with it.
//!
//! A mark on a file system sees every program, through every mount of it: bind mounts, containers,
//! the lower layers of overlayfs. No mark keeps a file system from being unmounted. Only notifications are asked for
//! (`FAN_CLASS_NOTIF`): no program ever waits for this one.
//!
//! Limits: Linux 6.0 and CAP_SYS_ADMIN. The kernel's queue holds 16,384 events by default
//! (`fs.fanotify.max_queued_events`); what overflows is lost, and one event says so. Events of one object by one
//! process are merged while they wait. `stat`, `access` and `O_PATH` raise none.

mod events;
mod group;

pub use events::{Event, Events, FileSystemId};
pub use group::{Group, Marker, Seen};
