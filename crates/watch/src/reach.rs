//! Opens only files and directories that a walker could open itself.
//!
//! The order ensures that a file is not touched before it is known to be permitted:
//! 1. The directory is opened by its handle, without access (`O_PATH`), then the file by its name in it. No
//!    step follows a link or crosses a mount (`openat2`).
//! 2. It must be the inode that was listed, a regular file, and not under a lease ([`Leases`](crate::leases::Leases)). A file without
//!    blocks is not opened: it is empty, or its contents are stored elsewhere (offline).
//! 3. All whose rights count ([`Directories::rights`]) must be permitted to read it. They must be permitted to
//!    search its directory and those above it, up to one that they opened themselves. Each directory must still
//!    lie in the one above it. The kernel checks this with their credentials ([`Credentials::permit`]).
//! 4. Then it is opened through the checked descriptor, without a new access time.
//!
//! [`Credentials::permit`]: foreseek_storage::Credentials::permit

use crate::counters::Counters;
use crate::directories::{Directories, Directory, Listing};
use crate::file_system::{FileSystem, View};
use crate::leases::LastLeases;
use crate::participants::Rights;
use foreseek_storage::{DeviceNumber, FileHandle, may};
use foreseek_walks::{InDirectory, Node};
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// Files that are open at a time in one call of [`Reach::files`], with two descriptors each.
pub(crate) const TOGETHER: usize = 32;

/// Access to the files of one file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach<'a> {
    pub(crate) file_system: &'a FileSystem,
    pub(crate) directories: &'a Directories,
    pub(crate) leases: &'a Arc<LastLeases>,
    pub(crate) counters: &'a Counters,
}

/// An opened file.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) fd: OwnedFd,
    pub(crate) stat: Stat,
    /// The user for whom it is read.
    pub(crate) user: u32,
}

/// A directory that may be listed.
#[derive(Debug)]
pub(crate) struct OpenedDirectory {
    pub(crate) directory: Arc<Directory>,
    pub(crate) fd: OwnedFd,
    /// Those for whom it is listed.
    pub(crate) rights: Rights,
}

/// Flags of a descriptor that gives no access.
const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Reach<'_> {
    /// Opens a directory for listing, if its walkers may list it.
    ///
    /// # Errors
    /// ESTALE if it is gone or was replaced, EACCES if it must not be read; otherwise the kernel's error.
    pub(crate) fn directory(self, which: InDirectory) -> Result<OpenedDirectory, Errno> {
        let view = self.file_system.view()?;
        let (place, parent) = match self.directories.get(which.node) {
            Some(known) => (view.open(&known.handle, PLACE | OFlags::DIRECTORY)?, None),
            None => {
                let parent = self.directories.get(which.directory).ok_or(Errno::STALE)?;
                let listing = parent.listing().ok_or(Errno::STALE)?;
                let (name, _) = listing.find(which.node.inode).ok_or(Errno::STALE)?;
                let above = view.open(&parent.handle, PLACE | OFlags::DIRECTORY)?;
                let place = place_in(above.as_fd(), name, OFlags::DIRECTORY)?;
                (place, Some(parent))
            }
        };
        self.check_is(which.node, &rustix::fs::fstat(&place)?)?;
        let directory = match &parent {
            None => self.directories.get(which.node).ok_or(Errno::STALE)?,
            Some(parent) => {
                let handle = FileHandle::of(place.as_fd())?;
                self.directories.reached(which.node, handle, Some(parent.node), parent.user, Instant::now())
            }
        };
        let rights = self.rights(which.node)?;
        let above = self.above(&view, &directory, &place, &rights)?;
        let list_and_search = Access::READ_OK | Access::EXEC_OK;
        let permitted = all(&rights, || Ok(may_search_all(&above)? && may(place.as_fd(), list_and_search)?))?;
        if !permitted {
            self.counters.denied.add(1);
            return Err(Errno::ACCESS);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME | OFlags::CLOEXEC;
        Ok(OpenedDirectory { directory, fd: again(&place, flags)?, rights })
    }

    /// Looks a listed file or directory up, which reads its inode into memory. The caller knows that its walkers
    /// may search the directory above.
    ///
    /// # Errors
    /// ESTALE if it is gone or was replaced; otherwise the kernel's error.
    pub(crate) fn look_up(self, which: InDirectory) -> Result<Stat, Errno> {
        let view = self.file_system.view()?;
        let parent = self.directories.get(which.directory).ok_or(Errno::STALE)?;
        let listing = parent.listing().ok_or(Errno::STALE)?;
        let (name, _) = listing.find(which.node.inode).ok_or(Errno::STALE)?;
        let above = view.open(&parent.handle, PLACE | OFlags::DIRECTORY)?;
        let stat = rustix::fs::fstat(place_in(above.as_fd(), name, OFlags::empty())?)?;
        self.check_is(which.node, &stat)?;
        Ok(stat)
    }

    /// What is known of a directory without opening it.
    ///
    /// # Errors
    /// ESTALE if it is gone; otherwise the kernel's error.
    pub(crate) fn stat_directory(self, directory: Node) -> Result<Stat, Errno> {
        let known = self.directories.get(directory).ok_or(Errno::STALE)?;
        rustix::fs::fstat(self.file_system.view()?.open(&known.handle, PLACE | OFlags::DIRECTORY)?)
    }

    /// Whether the inodes that a directory lists may be examined: whether its walkers may search it.
    pub(crate) fn may_search(self, directory: Node) -> bool {
        let look = || -> Result<bool, Errno> {
            let known = self.directories.get(directory).ok_or(Errno::STALE)?;
            let view = self.file_system.view()?;
            let place = view.open(&known.handle, PLACE | OFlags::DIRECTORY)?;
            let rights = self.rights(directory)?;
            let above = self.above(&view, &known, &place, &rights)?;
            all(&rights, || Ok(may_search_all(&above)? && may(place.as_fd(), Access::EXEC_OK)?))
        };
        look().unwrap_or(false)
    }

    /// Opens files of one directory, at most [`TOGETHER`]; returns the results in their order.
    pub(crate) fn files(self, directory: Node, files: &[Node]) -> Vec<Result<Opened, Errno>> {
        debug_assert!(files.len() <= TOGETHER);
        self.files_or(directory, files).unwrap_or_else(|error| files.iter().map(|_| Err(error)).collect())
    }

    fn files_or(self, directory: Node, files: &[Node]) -> Result<Vec<Result<Opened, Errno>>, Errno> {
        let known = self.directories.get(directory).ok_or(Errno::STALE)?;
        let listing = known.listing().ok_or(Errno::STALE)?;
        let rights = self.rights(directory)?;
        let view: Arc<View> = self.file_system.view()?;
        let above = view.open(&known.handle, PLACE | OFlags::DIRECTORY)?;
        let further = self.above(&view, &known, &above, &rights)?;
        let mut places: Vec<Result<(OwnedFd, Stat), Errno>> =
            files.iter().map(|file| self.place(above.as_fd(), &listing, *file)).collect();
        // As late as possible: nothing is read from the disk between this and the opens.
        let leases = self.leases.present().ok_or(Errno::ACCESS)?;
        for place in &mut places {
            if place.as_ref().is_ok_and(|(_, stat)| leases.hold(self.file_system.volume.device, stat.st_ino))
            {
                self.counters.leased.add(1);
                *place = Err(Errno::AGAIN);
            }
        }
        let mut permitted = vec![true; files.len()];
        all(&rights, || {
            let searches = may_search_all(&further)? && may(above.as_fd(), Access::EXEC_OK)?;
            for (place, permitted) in places.iter().zip(&mut permitted) {
                let reads = |place: &OwnedFd| may(place.as_fd(), Access::READ_OK);
                *permitted &= searches && place.as_ref().is_ok_and(|(place, _)| reads(place) == Ok(true));
            }
            Ok(true)
        })?;
        let user = rights.first().map_or(0, |opener| opener.user);
        let open = |(place, permitted): (Result<(OwnedFd, Stat), Errno>, bool)| {
            let (place, stat) = place?;
            if !permitted {
                self.counters.denied.add(1);
                return Err(Errno::ACCESS);
            }
            let flags =
                OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOATIME | OFlags::CLOEXEC;
            Ok(Opened { fd: again(&place, flags)?, stat, user })
        };
        Ok(places.drain(..).zip(permitted).map(open).collect())
    }

    /// Opens a file without access, and checks that it is the listed one.
    fn place(self, above: BorrowedFd<'_>, listing: &Listing, file: Node) -> Result<(OwnedFd, Stat), Errno> {
        let (name, _) = listing.find(file.inode).ok_or(Errno::STALE)?;
        let place = place_in(above, name, OFlags::empty())?;
        let stat = rustix::fs::fstat(&place)?;
        self.check_is(file, &stat)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::STALE);
        }
        if stat.st_blocks == 0 {
            return Err(Errno::NODATA);
        }
        Ok((place, stat))
    }

    /// The directories above one, up to the first that its walkers opened themselves. Each must still hold the
    /// one below it.
    fn above(
        self,
        view: &View,
        directory: &Arc<Directory>,
        place: &OwnedFd,
        rights: &Rights,
    ) -> Result<Vec<OwnedFd>, Errno> {
        let mut above: Vec<OwnedFd> = Vec::new();
        for known in self.directories.above(directory, rights, Instant::now()) {
            let below = above.last().unwrap_or(place);
            let found = rustix::fs::statat(below, "..", AtFlags::SYMLINK_NOFOLLOW)?;
            self.check_is(known.node, &found)?;
            above.push(view.open(&known.handle, PLACE | OFlags::DIRECTORY)?);
        }
        Ok(above)
    }

    fn check_is(self, node: Node, stat: &Stat) -> Result<(), Errno> {
        let device = DeviceNumber::from_raw(stat.st_dev);
        let is = stat.st_ino == node.inode && device == self.file_system.volume.device;
        if is { Ok(()) } else { Err(Errno::STALE) }
    }

    fn rights(self, directory: Node) -> Result<Rights, Errno> {
        self.directories.rights(directory, Instant::now()).ok_or(Errno::ACCESS)
    }
}

/// Whether `check` returns `true` with the rights of each.
fn all(rights: &Rights, mut check: impl FnMut() -> Result<bool, Errno>) -> Result<bool, Errno> {
    for opener in rights {
        if !opener.permit(&mut check)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether this thread, with its present credentials, may search each of these directories.
fn may_search_all(directories: &[OwnedFd]) -> Result<bool, Errno> {
    for directory in directories {
        if !may(directory.as_fd(), Access::EXEC_OK)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Opens an entry of a directory without access: no link, no other mount.
fn place_in(above: BorrowedFd<'_>, name: &[u8], extra: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(above, name, PLACE | extra, Mode::empty(), resolve)
}

/// Opens the file of a descriptor again, with access.
fn again(place: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, format!("/proc/self/fd/{}", place.as_raw_fd()), flags, Mode::empty())
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use crate::mounts::{mounts, one_each};
    use foreseek_places::entries_of;
    use foreseek_storage::Credentials;
    use foreseek_walks::DeviceNo;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn handle(path: &Path) -> FileHandle {
        FileHandle::of(fs::File::open(path).unwrap().as_fd()).unwrap()
    }

    /// A folder on a file system that can be reached by handles, with what a watcher knows of it.
    struct Known {
        place: tempfile::TempDir,
        file_system: FileSystem,
        directories: Directories,
        leases: Arc<LastLeases>,
        counters: Counters,
    }

    impl Known {
        fn new() -> Option<Self> {
            if !rustix::process::geteuid().is_root() {
                println!("SKIPPED: opening by handle needs root");
                return None;
            }
            let place = tempfile::tempdir_in("/var/tmp").unwrap();
            set_mode(place.path(), 0o755);
            let device = DeviceNumber::from_raw(rustix::fs::stat(place.path()).unwrap().st_dev);
            let all = mounts(&fs::read("/proc/self/mountinfo").unwrap());
            let Some(mount) = one_each(&all).into_iter().find(|mount| mount.device == device) else {
                println!("SKIPPED: /var/tmp is on no mount of its own device");
                return None;
            };
            let file_system = FileSystem::at(&mount.point, DeviceNo(0), foreseek_places::Volume::of).unwrap();
            let (directories, leases, counters) = Default::default();
            Some(Self { place, file_system, directories, leases, counters })
        }

        fn reach(&self) -> Reach<'_> {
            let Self { file_system, directories, leases, counters, .. } = self;
            Reach { file_system, directories, leases, counters }
        }

        fn node(&self, path: &Path) -> Node {
            self.file_system.node(rustix::fs::lstat(path).unwrap().st_ino)
        }

        /// A user without files opens a directory.
        fn opened(&self, path: &Path) {
            let status = "Uid:\t65534\t0\t0\t65534\nGid:\t65534\t0\t0\t65534\nGroups:\t\nCapEff:\t0\n";
            let other_user = Arc::new(Credentials::parse(status, true).unwrap());
            let above = self.node(path.parent().unwrap());
            self.directories.opened(self.node(path), handle(path), Some(above), other_user, Instant::now());
        }

        fn list(&self, which: Node, above: Node) -> Result<(), Errno> {
            let opened = self.reach().directory(InDirectory { node: which, directory: above })?;
            let OpenedDirectory { directory, fd, .. } = opened;
            let listing = Listing::new(entries_of(fd.as_fd(), 10)?, &self.file_system.covered());
            assert!(self.directories.listed(&directory, Arc::new(listing)));
            Ok(())
        }

        fn read(&self, directory: Node, file: Node) -> Result<u32, Errno> {
            self.reach().files(directory, &[file]).pop().unwrap().map(|opened| opened.user)
        }
    }

    /// A walker opened the top; the directories below were reached from there.
    #[test]
    fn files_that_are_moved_or_closed_meanwhile_are_not_opened() {
        let Some(known) = Known::new() else { return };
        let [top, private] = ["top", "private"].map(|name| known.place.path().join(name));
        let (middle, below) = (top.join("middle"), top.join("middle/below"));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("file"), "text").unwrap();
        fs::create_dir(&private).unwrap();
        set_mode(&private, 0o700);
        let [n_top, n_middle, n_below] = [&top, &middle, &below].map(|path| known.node(path));
        known.opened(&top);
        known.list(n_top, n_top).unwrap();
        known.list(n_middle, n_top).unwrap();
        known.list(n_below, n_middle).unwrap();
        let file = known.node(&below.join("file"));
        let read = || known.read(n_below, file);
        assert_eq!(read(), Ok(65_534));
        // A directory on the path is closed to others.
        set_mode(&middle, 0o700);
        assert_eq!(read().err(), Some(Errno::ACCESS));
        assert_eq!(known.list(n_below, n_middle), Err(Errno::ACCESS));
        set_mode(&middle, 0o755);
        assert_eq!(read(), Ok(65_534));
        // One is moved to a directory that they cannot search.
        fs::rename(&below, private.join("below")).unwrap();
        assert_eq!(read().err(), Some(Errno::STALE));
        assert_eq!(known.list(n_below, n_middle), Err(Errno::STALE));
        assert!(!known.reach().may_search(n_below));
        // An open there by its owner is another case.
        fs::rename(private.join("below"), &below).unwrap();
        assert_eq!(read(), Ok(65_534));
        // Its number stays in use while it is open.
        let held = fs::File::open(below.join("file")).unwrap();
        fs::remove_file(below.join("file")).unwrap();
        fs::write(below.join("file"), "another").unwrap();
        assert_eq!(read().err(), Some(Errno::STALE), "a file of that name was opened that was not listed");
        drop(held);
        assert!(known.counters.denied.get() >= 2);
    }

    #[test]
    fn only_regular_files_with_data_are_opened_and_nothing_that_took_their_names() {
        let Some(known) = Known::new() else { return };
        let [top, other] = ["top", "other"].map(|name| known.place.path().join(name));
        let names = ["file", "below", "fifo", "socket", "sparse"];
        let [file, below, fifo, socket, sparse] = names.map(|name| top.join(name));
        for directory in [&top, &other, &below] {
            fs::create_dir(directory).unwrap();
        }
        for path in [file.clone(), below.join("file"), other.join("file")] {
            fs::write(path, "text").unwrap();
        }
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        fs::File::create(&sparse).unwrap().set_len(1 << 20).unwrap();
        known.opened(&top);
        let n_top = known.node(&top);
        known.list(n_top, n_top).unwrap();
        let [n_file, n_below, n_fifo, n_socket, n_sparse] = names.map(|name| known.node(&top.join(name)));
        known.list(n_below, n_top).unwrap();
        let n_inner = known.node(&below.join("file"));
        assert_eq!(known.read(n_top, n_file), Ok(65_534));
        assert_eq!(known.read(n_below, n_inner), Ok(65_534));
        // Elsewhere, or nowhere.
        assert_eq!(known.read(n_top, n_sparse), Err(Errno::NODATA));
        for other in [n_fifo, n_socket, n_below] {
            assert_eq!(known.read(n_top, other), Err(Errno::STALE));
        }
        // Links that lead to a file, even to the one that was listed.
        let [file_moved, below_moved] = ["file", "below"].map(|name| known.place.path().join(name));
        fs::rename(&file, &file_moved).unwrap();
        std::os::unix::fs::symlink(&file_moved, &file).unwrap();
        assert_eq!(known.read(n_top, n_file), Err(Errno::STALE));
        fs::rename(&below, &below_moved).unwrap();
        std::os::unix::fs::symlink(&below_moved, &below).unwrap();
        assert_eq!(known.read(n_below, n_inner), Err(Errno::STALE));
        assert_eq!(known.list(n_below, n_top), Err(Errno::STALE));
        let listed_again = InDirectory { node: known.node(&other), directory: n_top };
        assert_eq!(known.reach().directory(listed_again).err(), Some(Errno::STALE), "it was not listed");
    }

    #[test]
    fn no_name_leads_out_of_its_directory() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("inner");
        fs::create_dir(&inner).unwrap();
        for directory in [place.path(), &inner] {
            fs::write(directory.join("file"), "text").unwrap();
        }
        std::os::unix::fs::symlink(".", inner.join("link")).unwrap();
        std::os::unix::fs::symlink(place.path().join("file"), inner.join("absolute")).unwrap();
        let opened = |above: &Path, name: &str| {
            let above = fs::File::open(above).unwrap();
            let place = place_in(above.as_fd(), name.as_bytes(), OFlags::empty())?;
            Ok(FileType::from_raw_mode(rustix::fs::fstat(place)?.st_mode))
        };
        assert_eq!(opened(place.path(), "file"), Ok(FileType::RegularFile));
        assert_eq!(opened(&inner, "../file"), Err(Errno::XDEV));
        // A link itself, and not that to which it leads.
        assert_eq!(opened(&inner, "absolute"), Ok(FileType::Symlink));
        assert_eq!(opened(&inner, "link/file"), Err(Errno::LOOP));
        assert_eq!(opened(place.path(), "inner/link/file"), Err(Errno::LOOP));
        // Another mount, and links of the kernel's own.
        assert_eq!(opened(Path::new("/"), "proc/self"), Err(Errno::XDEV));
        assert_eq!(opened(Path::new("/proc/self"), "root/proc"), Err(Errno::LOOP));
    }
}
