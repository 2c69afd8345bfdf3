//! Finds the SQLite that a call is meant for.
//!
//! Without this library the loader would have searched the objects that the program was started with. It would
//! then have searched those that the caller was loaded with (`dlopen`: Python loads its `_sqlite3` so, and
//! libsqlite3 with it). The same is done here at each call: a connection must never get to another SQLite than
//! its caller's.
#![allow(unsafe_code)]

use crate::copies::objects;
use foreseek_sqlite::Routines;
use libc::c_void;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// The followed SQLite: its load address, and its routines.
static FOLLOWED: OnceLock<Option<(usize, Routines)>> = OnceLock::new();

/// A SQLite in this process.
pub(crate) struct Sqlite {
    function: *mut c_void,
}

impl Sqlite {
    /// The one whose function of this name is meant by a caller at this address.
    pub(crate) fn meant(name: &CStr, caller: *const c_void) -> Option<Self> {
        // SAFETY: the name is a C string.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        let function = if next.is_null() { of_caller(name, caller).or_else(|| only(name))? } else { next };
        Some(Self { function })
    }

    /// The function.
    pub(crate) fn function(&self) -> *mut c_void {
        self.function
    }

    /// Introduces a new connection.
    ///
    /// # Safety
    /// `db` must be a connection that this SQLite has just opened, and that no other thread uses yet.
    pub(crate) unsafe fn attach(&self, db: *mut c_void) {
        let Some((base, path)) = object_of(self.function) else { return };
        let followed = FOLLOWED.get_or_init(|| {
            let object = Object::open(&path)?;
            Some((base, Routines::by_name(|name| object.find(name).unwrap_or(std::ptr::null_mut()))?))
        });
        match followed {
            // SAFETY: the routines are those of the connection's own SQLite.
            Some((first, routines)) if *first == base => unsafe { foreseek_sqlite::attach(routines, db) },
            _ => foreseek_sqlite::warn_unfollowed(&path.to_string_lossy()),
        }
    }
}

/// A loaded object; it stays loaded while this lives.
struct Object(*mut c_void);

impl Object {
    fn open(path: &CStr) -> Option<Self> {
        // SAFETY: the path is a C string; no further object is loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// A function of the object or of those that it was linked with.
    fn find(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and not used again.
        unsafe { libc::dlclose(self.0) };
    }
}

/// The object at an address: its load address, and its path.
pub(crate) fn object_of(address: *const c_void) -> Option<(usize, CString)> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the structure is filled if the address is in an object; its name lives as long as the object is
    // loaded.
    unsafe {
        if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some((info.dli_fbase as usize, CStr::from_ptr(info.dli_fname).to_owned()))
    }
}

/// The function in the objects that the caller's own object was linked with.
fn of_caller(name: &CStr, caller: *const c_void) -> Option<*mut c_void> {
    let (_, path) = object_of(caller)?;
    Object::open(&path)?.find(name)
}

/// The only function of this name in the process besides this library's: for a caller that was loaded beside
/// its SQLite and not linked with it.
fn only(name: &CStr) -> Option<*mut c_void> {
    let own = object_of(only as *const c_void)?.0;
    let mut found: Vec<*mut c_void> = objects()
        .iter()
        .filter_map(|object| Object::open(&object.path)?.find(name))
        .filter(|function| object_of(*function).is_some_and(|(base, _)| base != own))
        .collect();
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [function] => Some(function),
        _ => None,
    }
}
