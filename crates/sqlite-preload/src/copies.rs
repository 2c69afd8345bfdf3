//! The objects of this process that hold a SQLite.
//!
//! Each SQLite holds the first bytes of a database among its constants. Other programs that know the format do,
//! too: the result is only reported, and decides nothing.
#![allow(unsafe_code)]

use crate::meant::object_of;
use foreseek_sqlite::header::MAGIC;
use libc::{c_int, c_void, size_t};
use std::ffi::{CStr, CString};
use std::path::PathBuf;

/// The most bytes of a part of an object that are searched: it takes a tenth of a second.
const LOOKED_THROUGH: usize = 256 << 20;

/// A loaded object.
pub(crate) struct Object {
    pub(crate) path: CString,
    base: usize,
    /// Its read-only parts: address and length.
    constants: Vec<(usize, usize)>,
}

/// All objects of the process.
pub(crate) fn objects() -> Vec<Object> {
    let mut found: Vec<Object> = Vec::new();
    // SAFETY: the function is called with the pointer before this returns.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: size_t, found: *mut c_void) -> c_int {
    // SAFETY: the loader's description of a loaded object, and the vector of `objects`.
    unsafe {
        let (info, found) = (&*info, &mut *found.cast::<Vec<Object>>());
        let path = if info.dlpi_name.is_null() { c"" } else { CStr::from_ptr(info.dlpi_name) };
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        let is_constant = |header: &&libc::Elf64_Phdr| {
            header.p_type == libc::PT_LOAD && header.p_flags & (libc::PF_R | libc::PF_W) == libc::PF_R
        };
        let at = |header: &libc::Elf64_Phdr| {
            ((info.dlpi_addr + header.p_vaddr) as usize, (header.p_filesz as usize).min(LOOKED_THROUGH))
        };
        let constants = headers.iter().filter(is_constant).map(at).collect();
        found.push(Object { path: path.to_owned(), base: info.dlpi_addr as usize, constants });
    }
    0
}

/// The files that hold a SQLite, except this library.
pub(crate) fn copies() -> Vec<PathBuf> {
    let own = object_of(copies as *const c_void).map(|(base, _)| base);
    let mut found = Vec::new();
    for object in objects().iter().filter(|object| Some(object.base) != own) {
        // SAFETY: parts of a loaded object; this is called at the end of the process, when nothing is unloaded
        // any more.
        let holds = object.constants.iter().any(|(at, length)| unsafe {
            let bytes = std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(*at), *length);
            !libc::memmem(bytes.as_ptr().cast(), bytes.len(), MAGIC.as_ptr().cast(), MAGIC.len()).is_null()
        });
        if holds {
            let path = object.path.to_string_lossy();
            // The program itself has no name.
            found.push(if path.is_empty() {
                std::env::current_exe().unwrap_or_default()
            } else {
                path.as_ref().into()
            });
        }
    }
    found
}
