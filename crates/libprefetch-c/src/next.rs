//! The replaced functions: the next one of that name in the order of loading.
//!
//! Each is looked up once, at its first call. The look-up may itself call the library (an auditor, a debugging
//! allocator), and may happen before the library is initialised. Then, and if there is no next function, the
//! caller makes the system call itself.
#![allow(unsafe_code)]

use crate::edge::{errno, set_errno};
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

thread_local! {
    static LOOKING_UP: Cell<bool> = const { Cell::new(false) };
}

/// A function that is looked up at its first call.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

/// Stands for a missing function: an address that no function has.
const NONE: *mut c_void = std::ptr::without_provenance_mut(1);

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; `None` if it does not exist, or while this thread looks it up.
    #[inline]
    pub(crate) fn address(&self) -> Option<*mut c_void> {
        let known = self.address.load(Ordering::Relaxed);
        let address = if known.is_null() { self.look_up() } else { known };
        (address != NONE).then_some(address)
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        if LOOKING_UP.replace(true) {
            return NONE;
        }
        let saved = errno();
        // SAFETY: the name is a C string that lives for ever.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        set_errno(saved);
        LOOKING_UP.set(false);
        let address = if found.is_null() { NONE } else { found };
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Calls the next function of a name with the given arguments, or the fallback.
macro_rules! call_next {
    ($name:literal, fn($($argument:ident: $type:ty),*) -> $result:ty, else $fallback:expr) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new($name);
        match NEXT.address() {
            Some(address) => {
                type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
                // SAFETY: the function of this name in the C library has this type.
                let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(address) };
                // SAFETY: the caller's own call, passed on unchanged.
                unsafe { next($($argument),*) }
            }
            // SAFETY: likewise, past the C library.
            None => unsafe { $fallback },
        }
    }};
}
pub(crate) use call_next;
