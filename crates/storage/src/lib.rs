//! System calls for storage: descriptors, advice, residency, physical layout, memory limits and pressure,
//! loop devices, small files; for servers, direct reads and the memory that they fill.
//!
//! Code that runs inside another program's process works on that program's descriptors ([`HostFd`]). It
//! opens, duplicates and closes none of them: closing a descriptor of a file drops the process's fcntl locks
//! on that file. Only [`reads`] opens files, for servers. System calls bypass the C library where they can,
//! so that errno is unchanged and an interposed `read` is not entered again.

mod advice;
mod arena;
mod credentials;
mod detect;
mod disk_load;
pub mod fanotify;
mod fd;
mod frames;
mod handle;
mod layout;
pub mod loop_device;
mod memory;
mod other_disks;
mod page_cache;
mod pressure;
mod priority;
mod private_file;
mod privilege;
mod process_id;
mod processes;
pub mod reads;
mod region;
mod residency;
mod side_costs;
mod signals;
mod small_file;
mod together;
mod waiting_call;
mod xfs;

pub use advice::{DEFAULT_CALL, DontNeed, Means, dont_need, will_need};
pub use arena::{Arena, Buffer};
pub use credentials::{Credentials, may};
pub use detect::{BackingDevice, DeviceNumber, disks_below};
pub use disk_load::{DiskLoad, DiskWork};
pub use fd::{FileKind, HostFd, Identity};
pub use frames::{Filling, Frames, Reading};
pub use handle::FileHandle;
pub use layout::{EXTENTS_LIMIT, Extent, Layout};
pub use memory::{Available, Bound, available, available_besides, available_to, machine_memory};
pub use other_disks::OtherDisks;
pub use page_cache::{DISK_STRIDE, KernelPageCache, Notice, Options};
pub use pressure::PressureWatch;
pub use priority::{LowIoPriority, batch_scheduling};
pub use private_file::create_private;
pub use privilege::{has_gained_rights, sees_all_programs};
pub use process_id::{process_id, renew_process_id};
pub use processes::{Activity, ProcessWatch, WATCHED_MOST, name_of, user_of, waiting_threads};
pub use residency::{Residency, cachestat};
pub use side_costs::{SideCosts, machine_reads, process_reads, reclaimed, thread_reads};
pub use signals::{Signal, SignalQueue};
pub use small_file::read_text;
pub use together::Together;
pub use waiting_call::{ThreadState, process_of, thread_state};
pub use xfs::{XfsGeometry, xfs_directory};
