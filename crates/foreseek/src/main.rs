//! The command line: glue only. Each command is a module of [`commands`]; the work is done in the
//! crates below.
//!
//! Exit status: 0 done, 1 the answer is no, 2 cannot, 128 and the signal's number if a signal ended it; `warm
//! --then` and `sqlite` have that of the command that they ran.

mod commands;
mod text;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = commands::parse(std::env::args_os());
    match commands::run(cli) {
        Ok(status) => status,
        Err(error) => {
            commands::complain(&error);
            commands::status_of(&error)
        }
    }
}
