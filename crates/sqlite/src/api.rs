//! The few routines of SQLite that the extension calls, through the table that SQLite passes to it.
//!
//! The table (`sqlite3_api_routines` in `sqlite3ext.h`) is an array of function pointers to which SQLite only
//! ever appends. The positions below are counted from that header; binding these few by hand keeps this crate
//! free of a bundled SQLite, whose symbols would clash with the host's. If SQLite passes no table, one is built
//! from its exported functions ([`Routines`]).
#![allow(unsafe_code)]

use crate::statements::{Run, Running};
use libc::{c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, Ordering};

/// `SQLITE_OK`.
pub(crate) const OK: c_int = 0;
/// `SQLITE_ERROR`.
pub(crate) const ERROR: c_int = 1;
/// `SQLITE_OK_LOAD_PERMANENTLY`: the library stays when the connection is closed.
pub(crate) const OK_LOAD_PERMANENTLY: c_int = 256;
const UTF8: c_int = 1;
/// `SQLITE_DIRECTONLY`: not from within a schema, since the functions inspect and change the process.
const DIRECT_ONLY: c_int = 0x0008_0000;
const FCNTL_FILE_POINTER: c_int = 7;
const FCNTL_MMAP_SIZE: c_int = 18;
/// `SQLITE_STMTSTATUS_RUN`: how often a statement was run; 0 before version 3.20.
const STATUS_RUN: c_int = 6;
/// `SQLITE_STMTSTATUS_VM_STEP`: instructions of its program that were run up to its last row.
const STATUS_STEPS: c_int = 4;
/// Bytes of a statement's text that its report shows.
const TEXT_LIMIT: usize = 200;
/// Statements of one connection that are searched for running ones.
const STATEMENTS_LIMIT: usize = 256;
/// The first version that can keep an extension loaded: an older one treats [`OK_LOAD_PERMANENTLY`] as a
/// failure and unloads the library with its hooks. All of the routines below are in its table.
const OLDEST: c_int = 3_014_000;

/// A connection; opaque.
pub(crate) type Db = *mut c_void;
/// A function's context; opaque.
pub(crate) type Context = *mut c_void;
/// A function's argument; opaque.
pub(crate) type Value = *mut c_void;
/// An SQL function.
pub(crate) type Function = unsafe extern "C" fn(Context, c_int, *mut Value);
type SystemCall = *mut c_void;
/// `sqlite3_stmt_status`.
type Status = unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int;
/// `sqlite3_sql`.
type Text = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// The beginning of `sqlite3_vfs`, version 3.
#[repr(C)]
struct Vfs {
    version: c_int,
    file_size: c_int,
    longest_path: c_int,
    next: *mut Vfs,
    name: *const c_char,
    data: *mut c_void,
    methods: [*const c_void; 12],
    current_time: *const c_void,
    set_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, SystemCall) -> c_int>,
    get_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> SystemCall>,
}

/// The beginning of `sqlite3_io_methods`.
#[repr(C)]
struct IoMethods {
    version: c_int,
    close: *const c_void,
    read: Option<unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int>,
}

#[repr(C)]
struct File {
    methods: *const IoMethods,
}

/// Positions in the table of routines, and the functions there.
macro_rules! routines {
    ($($position:ident = $at:literal, $name:literal;)*) => {
        mod at {
            $(pub(super) const $position: usize = $at;)*
        }
        const NAMES: &[(usize, &CStr)] = &[$((at::$position, $name),)*];
    };
}

routines! {
    FREE = 58, c"sqlite3_free";
    GET_AUTOCOMMIT = 60, c"sqlite3_get_autocommit";
    LIBVERSION_NUMBER = 67, c"sqlite3_libversion_number";
    MPRINTF = 69, c"sqlite3_mprintf";
    RESULT_ERROR = 80, c"sqlite3_result_error";
    RESULT_TEXT = 85, c"sqlite3_result_text";
    VALUE_TEXT = 109, c"sqlite3_value_text";
    FILE_CONTROL = 127, c"sqlite3_file_control";
    MUTEX_LEAVE = 133, c"sqlite3_mutex_leave";
    MUTEX_TRY = 134, c"sqlite3_mutex_try";
    VFS_FIND = 141, c"sqlite3_vfs_find";
    CONTEXT_DB_HANDLE = 149, c"sqlite3_context_db_handle";
    NEXT_STMT = 152, c"sqlite3_next_stmt";
    SQL = 153, c"sqlite3_sql";
    CREATE_FUNCTION_V2 = 162, c"sqlite3_create_function_v2";
    DB_MUTEX = 164, c"sqlite3_db_mutex";
    STMT_STATUS = 170, c"sqlite3_stmt_status";
    STMT_BUSY = 184, c"sqlite3_stmt_busy";
    EXPANDED_SQL = 215, c"sqlite3_expanded_sql";
}
/// `sqlite3_auto_extension`: only in SQLite's own table. A caller that builds a table knows each connection
/// anyway.
const AUTO_EXTENSION: usize = 192;
/// The number of positions up to the last used one.
const POSITIONS: usize = at::EXPANDED_SQL + 1;

/// The routines of a SQLite that passes no table: its exported functions.
#[derive(Debug)]
pub struct Routines(Box<[AtomicPtr<c_void>; POSITIONS]>);

impl Routines {
    /// The routines that `find` returns for their names; `None` if an indispensable one is missing.
    pub fn by_name(find: impl Fn(&CStr) -> *mut c_void) -> Option<Self> {
        let table = Box::new([const { AtomicPtr::new(std::ptr::null_mut()) }; POSITIONS]);
        for (position, name) in NAMES {
            table[*position].store(find(name), Ordering::Relaxed);
        }
        let is_there = !table[at::LIBVERSION_NUMBER].load(Ordering::Relaxed).is_null();
        is_there.then_some(Self(table))
    }

    /// The same as a table of SQLite's form: an atomic pointer has the layout of a plain one.
    pub(crate) fn table(&'static self) -> *const *const c_void {
        self.0.as_ptr().cast()
    }
}

static ROUTINES: AtomicPtr<*const c_void> = AtomicPtr::new(std::ptr::null_mut());

/// SQLite's routines.
#[derive(Clone, Copy)]
pub(crate) struct Api(*const *const c_void);

/// The first bytes of a statement's text; empty if it has none.
///
/// # Safety
/// `statement` must be one of a connection that this thread is within, and the result is used before it can end.
unsafe fn text_of<'a>(text: Text, statement: *mut c_void) -> &'a [u8] {
    // SAFETY: as the caller guarantees; the text is the statement's own.
    unsafe {
        let text = text(statement);
        if text.is_null() {
            return &[];
        }
        let length = libc::strnlen(text, TEXT_LIMIT);
        std::slice::from_raw_parts(text.cast(), length)
    }
}

/// One run of a statement with this text.
///
/// # Safety
/// As for [`text_of`].
unsafe fn run(status: Status, statement: *mut c_void, text: &[u8]) -> Run {
    // SAFETY: as the caller guarantees; the counters are not reset.
    let [runs, steps] = [STATUS_RUN, STATUS_STEPS].map(|counter| unsafe { status(statement, counter, 0) });
    Run::new((statement as usize, runs, text), steps.cast_unsigned())
}

impl Api {
    /// Takes the table that SQLite passes to an extension. `None` for a version that is too old, and for a
    /// second SQLite in the process: their objects must not be mixed up.
    ///
    /// # Safety
    /// `table` must come from SQLite.
    pub(crate) unsafe fn new(table: *const *const c_void) -> Option<Self> {
        // A SQLite that was built without extensions passes none.
        if table.is_null() {
            return None;
        }
        let api = Self(table);
        // SAFETY: the routine has been in the table since the first version of it.
        let version = unsafe {
            api.routine::<unsafe extern "C" fn() -> c_int>(at::LIBVERSION_NUMBER).map(|version| version())
        };
        if version? < OLDEST {
            return None;
        }
        let held = ROUTINES.compare_exchange(
            std::ptr::null_mut(),
            table.cast_mut(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let is_first = held.is_ok() || held.is_err_and(|held| held == table.cast_mut());
        is_first.then_some(api)
    }

    /// The table that was taken.
    pub(crate) fn current() -> Option<Self> {
        let table = ROUTINES.load(Ordering::Acquire);
        (!table.is_null()).then_some(Self(table))
    }

    /// The routine at a position.
    ///
    /// # Safety
    /// `F` must be the type of that routine as a function pointer.
    unsafe fn routine<F: Copy>(self, position: usize) -> Option<F> {
        // SAFETY: the table has this position in every version from `OLDEST` on, and a function
        // pointer has the size of a pointer; a null one (omitted at compile time) is left out.
        unsafe {
            let routine = self.0.add(position).read();
            (!routine.is_null()).then(|| std::mem::transmute_copy::<*const c_void, F>(&routine))
        }
    }

    /// A message that SQLite frees.
    pub(crate) fn message(self, text: &str) -> *mut c_char {
        let Ok(text) = CString::new(text) else { return std::ptr::null_mut() };
        type F = unsafe extern "C" fn(*const c_char, ...) -> *mut c_char;
        // SAFETY: `sqlite3_mprintf` with a format that takes one string.
        unsafe {
            self.routine::<F>(at::MPRINTF)
                .map_or(std::ptr::null_mut(), |printf| printf(c"%s".as_ptr(), text.as_ptr()))
        }
    }

    /// Registers an SQL function. `gone` is called with `data` when the connection ends.
    pub(crate) fn create_function(
        self,
        db: Db,
        name: &CStr,
        arguments: c_int,
        function: Function,
        gone: Option<(unsafe extern "C" fn(*mut c_void), *mut c_void)>,
    ) -> c_int {
        type F = unsafe extern "C" fn(
            Db,
            *const c_char,
            c_int,
            c_int,
            *mut c_void,
            Option<Function>,
            Option<Function>,
            Option<unsafe extern "C" fn(Context)>,
            Option<unsafe extern "C" fn(*mut c_void)>,
        ) -> c_int;
        let (gone, data) = gone.map_or((None, std::ptr::null_mut()), |(gone, data)| (Some(gone), data));
        // SAFETY: `sqlite3_create_function_v2` with a live connection and functions that live as long
        // as this library, which is never unloaded.
        unsafe {
            self.routine::<F>(at::CREATE_FUNCTION_V2).map_or(ERROR, |create| {
                create(
                    db,
                    name.as_ptr(),
                    arguments,
                    UTF8 | DIRECT_ONLY,
                    data,
                    Some(function),
                    None,
                    None,
                    gone,
                )
            })
        }
    }

    /// The connection that calls a function.
    ///
    /// # Safety
    /// `context` must be that of a function that SQLite calls.
    pub(crate) unsafe fn connection(self, context: Context) -> Option<Db> {
        // SAFETY: `sqlite3_context_db_handle` of a live context.
        unsafe {
            self.routine::<unsafe extern "C" fn(Context) -> Db>(at::CONTEXT_DB_HANDLE).map(|db| db(context))
        }
    }

    /// An argument as text; `None` for NULL.
    ///
    /// # Safety
    /// `value` must be an argument that SQLite passed to the running function.
    pub(crate) unsafe fn text(self, value: Value) -> Option<String> {
        // SAFETY: `sqlite3_value_text` of a live value gives a string that ends in zero, or null.
        unsafe {
            let text = self.routine::<unsafe extern "C" fn(Value) -> *const c_char>(at::VALUE_TEXT)?(value);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    /// Returns the result of a function's call.
    ///
    /// # Safety
    /// `context` must be that of a function that SQLite calls.
    pub(crate) unsafe fn answer(self, context: Context, answer: Result<&str, &str>) {
        type Text = unsafe extern "C" fn(Context, *const c_char, c_int, isize);
        type Failure = unsafe extern "C" fn(Context, *const c_char, c_int);
        const TRANSIENT: isize = -1;
        let length = |text: &str| c_int::try_from(text.len()).unwrap_or(0);
        // SAFETY: SQLite copies the text, whose length is given.
        unsafe {
            match answer {
                Ok(text) => {
                    if let Some(result) = self.routine::<Text>(at::RESULT_TEXT) {
                        result(context, text.as_ptr().cast(), length(text), TRANSIENT);
                    }
                }
                Err(text) => {
                    if let Some(result) = self.routine::<Failure>(at::RESULT_ERROR) {
                        result(context, text.as_ptr().cast(), length(text));
                    }
                }
            }
        }
    }

    /// Registers an entry point that SQLite calls for every connection opened from now on.
    pub(crate) fn auto_extension(self, entry: unsafe extern "C" fn()) {
        type F = unsafe extern "C" fn(unsafe extern "C" fn()) -> c_int;
        // SAFETY: `sqlite3_auto_extension`; the library is never unloaded.
        unsafe {
            if let Some(auto_extension) = self.routine::<F>(AUTO_EXTENSION) {
                auto_extension(entry);
            }
        }
    }

    /// Replaces a system call of the VFS `name` by `new`; returns the former one. `None` if there is no such
    /// VFS, or it has no such call or cannot replace it.
    ///
    /// # Safety
    /// `new` must be a function of the system call's type that lives as long as the process.
    pub(crate) unsafe fn override_call(
        self,
        vfs: &CStr,
        call: &CStr,
        new: *mut c_void,
    ) -> Option<*mut c_void> {
        type Find = unsafe extern "C" fn(*const c_char) -> *mut Vfs;
        // SAFETY: a VFS that is found lives on; the two methods exist from version 3 of it on.
        unsafe {
            let vfs = self.routine::<Find>(at::VFS_FIND)?(vfs.as_ptr());
            if vfs.is_null() || (*vfs).version < 3 {
                return None;
            }
            let former = (*vfs).get_system_call?(vfs, call.as_ptr());
            if former.is_null() {
                return None;
            }
            if former != new && (*vfs).set_system_call?(vfs, call.as_ptr(), new) != OK {
                return None;
            }
            Some(former)
        }
    }

    fn file_control(self, db: Db, control: c_int, argument: *mut c_void) -> Option<()> {
        type F = unsafe extern "C" fn(Db, *const c_char, c_int, *mut c_void) -> c_int;
        // SAFETY: `sqlite3_file_control` of a live connection's main database; the callers pass the argument
        // that the control needs.
        unsafe {
            let code = self.routine::<F>(at::FILE_CONTROL)?(db, c"main".as_ptr(), control, argument);
            (code == OK).then_some(())
        }
    }

    /// How much of a connection's main database may be mapped into memory.
    pub(crate) fn mmap_size(self, db: Db) -> i64 {
        // A negative size reads the setting without changing it.
        let mut size: i64 = -1;
        self.file_control(db, FCNTL_MMAP_SIZE, (&raw mut size).cast()).map_or(0, |()| size.max(0))
    }

    /// Reads one byte of a connection's main database through SQLite, so that a hooked system call gets its
    /// descriptor. Returns whether there was a file to read.
    pub(crate) fn touch(self, db: Db) -> bool {
        let mut file: *mut File = std::ptr::null_mut();
        if self.file_control(db, FCNTL_FILE_POINTER, (&raw mut file).cast()).is_none() || file.is_null() {
            return false;
        }
        let mut byte = 0u8;
        // SAFETY: an open file's method table lives as long as the file is open, which it is while this thread
        // sets the connection up. `xRead` is in every version of the table.
        unsafe {
            if let Some(methods) = (*file).methods.as_ref()
                && let Some(read) = methods.read
            {
                read(file, (&raw mut byte).cast(), 1, 0);
                return true;
            }
        }
        false
    }

    /// The texts of the running statements of the connection, with the values of their parameters.
    ///
    /// # Safety
    /// `db` must be a live connection, and live until this returns.
    pub(crate) unsafe fn texts(self, db: Db) -> Vec<String> {
        type Expanded = unsafe extern "C" fn(*mut c_void) -> *mut c_char;
        type Free = unsafe extern "C" fn(*mut c_void);
        let mut texts = Vec::new();
        // SAFETY: the caller must free a text with the values of its parameters; to create it reads no page and
        // changes nothing of the statement.
        unsafe {
            let (Some(expanded), Some(free)) =
                (self.routine::<Expanded>(at::EXPANDED_SQL), self.routine::<Free>(at::FREE))
            else {
                return texts;
            };
            self.running(db, |statement| {
                let text = expanded(statement);
                if !text.is_null() {
                    texts.push(CStr::from_ptr(text).to_string_lossy().into_owned());
                    free(text.cast());
                }
                true
            });
        }
        texts
    }

    /// The running statement of the connection; of several, the one prepared last.
    ///
    /// # Safety
    /// `db` must be a live connection, and live until this returns.
    pub(crate) unsafe fn statement(self, db: Db) -> Option<Running> {
        let mut found = None;
        // SAFETY: the text is copied before the statement can end.
        unsafe {
            let (text, status) = (self.routine::<Text>(at::SQL)?, self.routine::<Status>(at::STMT_STATUS)?);
            self.running(db, |statement| {
                let text = text_of(text, statement);
                if !text.is_empty() {
                    let sql = String::from_utf8_lossy(text).into_owned();
                    found = Some(Running { run: run(status, statement, text), sql });
                }
                false
            });
        }
        found
    }

    /// The runs of the connection's running statements; `None` between BEGIN and COMMIT, where a transaction goes
    /// on whichever statements run.
    ///
    /// # Safety
    /// `db` must be a live connection, and live until this returns.
    pub(crate) unsafe fn runs(self, db: Db) -> Option<Vec<Run>> {
        type Autocommit = unsafe extern "C" fn(Db) -> c_int;
        let mut runs = Vec::new();
        // SAFETY: a live connection; its mutex is held where it has one.
        unsafe {
            let autocommit = self.routine::<Autocommit>(at::GET_AUTOCOMMIT)?;
            let (text, status) = (self.routine::<Text>(at::SQL)?, self.routine::<Status>(at::STMT_STATUS)?);
            if autocommit(db) == 0 {
                return None;
            }
            self.running(db, |statement| {
                runs.push(run(status, statement, text_of(text, statement)));
                true
            });
        }
        Some(runs)
    }

    /// Whether the connection runs a statement, and no other thread is within it.
    ///
    /// # Safety
    /// `db` must be a live connection, and live until this returns. If it has [no mutex](Self::has_mutex), no
    /// other thread may be within it.
    pub(crate) unsafe fn is_running(self, db: Db) -> bool {
        let mut is_running = false;
        // SAFETY: as the caller guarantees.
        unsafe {
            self.running(db, |_| {
                is_running = true;
                false
            });
        }
        is_running
    }

    /// Whether a connection serialises threads itself.
    ///
    /// # Safety
    /// `db` must be a live connection.
    pub(crate) unsafe fn has_mutex(self, db: Db) -> bool {
        // SAFETY: as the caller guarantees.
        unsafe { !self.mutex(db).is_null() }
    }

    /// The mutex of a connection; null if its host serialises threads.
    ///
    /// # Safety
    /// `db` must be a live connection. The mutex lives as long.
    unsafe fn mutex(self, db: Db) -> *mut c_void {
        type DbMutex = unsafe extern "C" fn(Db) -> *mut c_void;
        // SAFETY: `sqlite3_db_mutex` of a live connection.
        unsafe { self.routine::<DbMutex>(at::DB_MUTEX).map_or(std::ptr::null_mut(), |of| of(db)) }
    }

    /// Passes each running statement of the connection to `take`, while it returns `true`. Passes none if
    /// another thread is within the connection (which then shares its cache with the reading one): to wait for
    /// it here, with the cache locked, could be for ever.
    ///
    /// # Safety
    /// `db` must be a live connection, and live until this returns.
    unsafe fn running(self, db: Db, take: impl FnMut(*mut c_void) -> bool) {
        type Try = unsafe extern "C" fn(*mut c_void) -> c_int;
        type Leave = unsafe extern "C" fn(*mut c_void);
        // SAFETY: the mutex lives as long as the connection.
        unsafe {
            let mutex = self.mutex(db);
            if mutex.is_null() {
                return self.walk(db, take);
            }
            let (Some(try_), Some(leave)) =
                (self.routine::<Try>(at::MUTEX_TRY), self.routine::<Leave>(at::MUTEX_LEAVE))
            else {
                return;
            };
            // The mutex is recursive: a thread that is within the connection gets it.
            if try_(mutex) == OK {
                self.walk(db, take);
                leave(mutex);
            }
        }
    }

    /// # Safety
    /// `db` must be a live connection that this thread may use now.
    unsafe fn walk(self, db: Db, mut take: impl FnMut(*mut c_void) -> bool) {
        type Next = unsafe extern "C" fn(Db, *mut c_void) -> *mut c_void;
        type Busy = unsafe extern "C" fn(*mut c_void) -> c_int;
        // SAFETY: statements are walked while this thread is within the connection.
        unsafe {
            let (Some(next), Some(busy)) =
                (self.routine::<Next>(at::NEXT_STMT), self.routine::<Busy>(at::STMT_BUSY))
            else {
                return;
            };
            let mut statement = next(db, std::ptr::null_mut());
            for _ in 0..STATEMENTS_LIMIT {
                if statement.is_null() || busy(statement) != 0 && !take(statement) {
                    break;
                }
                statement = next(db, statement);
            }
        }
    }
}
