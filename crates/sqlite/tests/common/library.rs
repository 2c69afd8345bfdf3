//! A SQLite in a shared library, which the test opens while it runs.

use rusqlite::ffi;
use std::ffi::{CStr, CString};
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

type Db = *mut ffi::sqlite3;
type Statement = *mut ffi::sqlite3_stmt;
type Text = *mut libc::c_char;

/// The functions that a test calls.
pub(crate) struct Library {
    libversion: unsafe extern "C" fn() -> *const libc::c_char,
    open: unsafe extern "C" fn(*const libc::c_char, *mut Db) -> libc::c_int,
    close: unsafe extern "C" fn(Db) -> libc::c_int,
    errmsg: unsafe extern "C" fn(Db) -> *const libc::c_char,
    enable_load_extension: unsafe extern "C" fn(Db, libc::c_int) -> libc::c_int,
    load_extension:
        unsafe extern "C" fn(Db, *const libc::c_char, *const libc::c_char, *mut Text) -> libc::c_int,
    prepare:
        unsafe extern "C" fn(Db, *const libc::c_char, libc::c_int, *mut Statement, *mut Text) -> libc::c_int,
    bind_int64: unsafe extern "C" fn(Statement, libc::c_int, i64) -> libc::c_int,
    step: unsafe extern "C" fn(Statement) -> libc::c_int,
    column_count: unsafe extern "C" fn(Statement) -> libc::c_int,
    column_text: unsafe extern "C" fn(Statement, libc::c_int) -> *const u8,
    finalize: unsafe extern "C" fn(Statement) -> libc::c_int,
}

impl Library {
    /// Opens a library by its path, or by its name where the system has it.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_bytes()).expect("no zero");
        // SAFETY: a SQLite has no initialisers that could do harm. Its own functions come first for it: this program
        // has another SQLite within.
        let library =
            unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND) };
        if library.is_null() {
            // SAFETY: the text of the error that has just occurred.
            return Err(unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned());
        }
        // SAFETY: each field has the type of the function with that name in SQLite's interface.
        unsafe {
            Ok(Self {
                libversion: symbol(library, c"sqlite3_libversion")?,
                open: symbol(library, c"sqlite3_open")?,
                close: symbol(library, c"sqlite3_close")?,
                errmsg: symbol(library, c"sqlite3_errmsg")?,
                enable_load_extension: symbol(library, c"sqlite3_enable_load_extension")?,
                load_extension: symbol(library, c"sqlite3_load_extension")?,
                prepare: symbol(library, c"sqlite3_prepare_v2")?,
                bind_int64: symbol(library, c"sqlite3_bind_int64")?,
                step: symbol(library, c"sqlite3_step")?,
                column_count: symbol(library, c"sqlite3_column_count")?,
                column_text: symbol(library, c"sqlite3_column_text")?,
                finalize: symbol(library, c"sqlite3_finalize")?,
            })
        }
    }

    pub(crate) fn version(&self) -> String {
        // SAFETY: a constant text.
        unsafe { CStr::from_ptr((self.libversion)()) }.to_string_lossy().into_owned()
    }

    pub(crate) fn connect(&self, database: &Path) -> Connection<'_> {
        let name = CString::new(database.as_os_str().as_bytes()).expect("no zero");
        let mut db = std::ptr::null_mut();
        // SAFETY: a path and a place for the connection.
        let code = unsafe { (self.open)(name.as_ptr(), &raw mut db) };
        let connection = Connection { library: self, db };
        connection.check(code, "open");
        connection
    }
}

/// The function of this name in a library.
///
/// # Safety
/// `F` must be the function's type, as a pointer.
unsafe fn symbol<F: Copy>(library: *mut libc::c_void, name: &CStr) -> Result<F, String> {
    // SAFETY: a function pointer has the size of a pointer.
    unsafe {
        let found = libc::dlsym(library, name.as_ptr());
        if found.is_null() {
            return Err(format!("it has no {}", name.to_string_lossy()));
        }
        Ok(std::mem::transmute_copy::<*mut libc::c_void, F>(&found))
    }
}

/// A connection of a library.
pub(crate) struct Connection<'a> {
    library: &'a Library,
    db: Db,
}

impl Connection<'_> {
    fn check(&self, code: libc::c_int, what: &str) {
        // SAFETY: the connection is open, or its opening has failed; the text is copied at once.
        let message =
            || unsafe { CStr::from_ptr((self.library.errmsg)(self.db)) }.to_string_lossy().into_owned();
        assert!(
            [ffi::SQLITE_OK, ffi::SQLITE_ROW, ffi::SQLITE_DONE].contains(&code),
            "SQLite {}: {what}: {}",
            self.library.version(),
            message()
        );
    }

    pub(crate) fn load(&self, extension: &Path) {
        let name = CString::new(extension.as_os_str().as_bytes()).expect("no zero");
        // SAFETY: the extension is this crate's. Without a place for a message, none is made.
        unsafe {
            self.check((self.library.enable_load_extension)(self.db, 1), "enable_load_extension");
            let code =
                (self.library.load_extension)(self.db, name.as_ptr(), std::ptr::null(), std::ptr::null_mut());
            self.check(code, "load_extension");
        }
    }

    /// Runs a statement with these values of its parameters. Passes all values of all rows to `take`.
    pub(crate) fn run(&self, sql: &str, values: &[i64], mut take: impl FnMut(Option<&[u8]>)) {
        let Library { prepare, bind_int64, step, column_count, column_text, finalize, .. } = self.library;
        let text = CString::new(sql).expect("no zero");
        let mut statement = std::ptr::null_mut();
        // SAFETY: the statement lives until the end of this function; a value of a row until the next step.
        unsafe {
            self.check(prepare(self.db, text.as_ptr(), -1, &raw mut statement, std::ptr::null_mut()), sql);
            for (at, value) in values.iter().enumerate() {
                self.check(bind_int64(statement, 1 + at as libc::c_int, *value), sql);
            }
            loop {
                let code = step(statement);
                self.check(code, sql);
                if code != ffi::SQLITE_ROW {
                    break;
                }
                for column in 0..column_count(statement) {
                    let value = column_text(statement, column);
                    take((!value.is_null()).then(|| CStr::from_ptr(value.cast()).to_bytes()));
                }
            }
            self.check(finalize(statement), sql);
        }
    }

    /// The rows of a statement as one number.
    pub(crate) fn digest(&self, sql: &str, values: &[i64]) -> u64 {
        let mut hash = DefaultHasher::new();
        self.run(sql, values, |value| {
            hash.write_u8(u8::from(value.is_some()));
            hash.write(value.unwrap_or_default());
            hash.write_u8(0xff);
        });
        hash.finish()
    }

    /// The only value of a statement.
    pub(crate) fn text(&self, sql: &str) -> String {
        let mut text = String::new();
        self.run(sql, &[], |value| text = String::from_utf8_lossy(value.unwrap_or_default()).into_owned());
        text
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        // SAFETY: no statement of it is left.
        unsafe { (self.library.close)(self.db) };
    }
}
