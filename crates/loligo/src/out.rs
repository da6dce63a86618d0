//! What goes to standard output.
//!
//! Owns what happens when nobody reads it any more, as behind `| head -1`: a verb whose purpose is its output ends
//! quietly, one that serves goes on. `println!` would panic; the lint `print_stdout` and
//! `print_stderr` keep such away.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process has more to do than to print.
static SERVES: AtomicBool = AtomicBool::new(false);

/// From now on, the process goes on when nobody reads what it prints.
pub(crate) fn serve() {
    SERVES.store(true, Ordering::Relaxed);
}

/// Prints text.
pub(crate) fn print(text: Arguments<'_>) {
    heed(io::stdout().write_fmt(text));
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) {
    heed(io::stdout().write_all(bytes));
}

fn heed(written: io::Result<()>) {
    let Err(error) = written.and_then(|()| io::stdout().flush()) else { return };
    if !SERVES.load(Ordering::Relaxed) {
        let quiet = error.kind() == ErrorKind::BrokenPipe;
        if !quiet {
            complain(format_args!("standard output: {error}"));
        }
        std::process::exit(i32::from(!quiet));
    }
}

/// Says on standard error what is wrong; if nobody reads that either, nothing is left to do.
pub(crate) fn complain(text: Arguments<'_>) {
    let _ = io::stderr().write_fmt(format_args!("loligo: {text}\n"));
}

/// One line of a log that goes to standard error.
pub(crate) fn log_line(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints a line.
macro_rules! say {
    () => { $crate::out::print(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::out::print(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Prints text that ends its lines itself.
macro_rules! say_as_is {
    ($($arg:tt)*) => { $crate::out::print(format_args!($($arg)*)) };
}
