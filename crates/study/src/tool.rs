//! Programs that a study runs: their answers, their last words when they fail, and their end when the study is to stop.
//!
//! Each leads a process group of its own: what a terminal's Ctrl-C asks is the study's to decide, also while it takes away
//! what it has set up, and a program's children end with it.

use crate::error::StudyError;
use crate::stop::Stop;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often to look whether a program has ended.
const POLL: Duration = Duration::from_millis(10);
/// How long a program that is told to end may take for it: `loligo up` stops the servers it has started.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Starts a program as the leader of a group, with nothing to read.
pub(crate) fn start(command: &mut Command) -> Result<Child, StudyError> {
    lead(command.stdin(Stdio::null()))
}

/// The same for one that reads what it is told.
pub(crate) fn start_to_talk(command: &mut Command) -> Result<Child, StudyError> {
    lead(command.stdin(Stdio::piped()))
}

fn lead(command: &mut Command) -> Result<Child, StudyError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command.process_group(0).spawn();
    child.map_err(|source| StudyError::NoProgram { program, source })
}

/// Sends a signal to a program that was started here, and to its children.
pub(crate) fn signal(child: &Child, signal: Signal) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        // All of them may have ended meanwhile: then there is nothing to do.
        let _ = kill_process_group(group, signal);
    }
}

/// Ends a program and its children at once.
pub(crate) fn kill(child: &mut Child) {
    signal(child, Signal::KILL);
    let _ = child.wait();
}

/// What a program prints, once it has ended well. It is ended if the study is to stop.
pub(crate) fn output(command: &mut Command, stop: &Stop) -> Result<String, StudyError> {
    stop.check()?;
    let mut child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (ended, printed, said) = std::thread::scope(|scope| {
        let (printed, said) = (scope.spawn(|| read(out)), scope.spawn(|| read(err)));
        let ended = end(&mut child, stop);
        (ended, printed.join().expect("it only reads"), said.join().expect("it only reads"))
    });
    let status = ended?;
    if status.success() {
        return Ok(printed);
    }
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let words = last.map_or_else(|| status.to_string(), |line| line.trim().to_owned());
    Err(StudyError::Failed { command: shown(command), words })
}

fn read(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is missing in the answer, and who looks for it says so.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for a program's end, which a request to stop brings about.
fn end(child: &mut Child, stop: &Stop) -> Result<ExitStatus, StudyError> {
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().map_err(StudyError::file("a program"))? {
            return if told.is_some() { Err(StudyError::Interrupted) } else { Ok(status) };
        }
        match told {
            None if stop.is_asked() => {
                signal(child, Signal::TERM);
                told = Some(Instant::now());
            }
            Some(since) if since.elapsed() > END_PATIENCE => signal(child, Signal::KILL),
            _ => std::thread::sleep(POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_one_line_that_names_the_command() {
        let stop = Stop::default();
        let line = output(Command::new("sh").args(["-c", "echo first >&2; echo why >&2; exit 3"]), &stop)
            .expect_err("it fails");
        assert_eq!(line.to_string(), "sh -c echo first >&2; echo why >&2; exit 3: why");
        let line = output(&mut Command::new("no-such-program"), &stop).expect_err("there is none").to_string();
        assert!(line.starts_with("no-such-program is needed and does not start: "), "{line}");
        assert_eq!(output(Command::new("echo").arg("x"), &stop).expect("it ends well"), "x\n");
    }

    /// Whoever waits for a program that would take all day is let go, and the program's own children end, too: they hold the
    /// pipe that its output is read from.
    #[test]
    fn a_study_that_is_to_stop_waits_for_no_program() {
        let stop = Stop::default();
        let began = Instant::now();
        let ended = std::thread::scope(|scope| {
            let ended = scope.spawn(|| output(Command::new("sh").args(["-c", "sleep 86400; echo late"]), &stop));
            std::thread::sleep(Duration::from_millis(100));
            stop.ask();
            ended.join().expect("no panic")
        });
        assert!(matches!(ended, Err(StudyError::Interrupted)), "{ended:?}");
        assert!(began.elapsed() < END_PATIENCE, "by the first signal");
        let late = output(Command::new("sleep").arg("86400"), &Stop::after(Duration::from_millis(100)));
        assert!(matches!(late, Err(StudyError::Interrupted)), "{late:?}");
        let refused = output(Command::new("echo").arg("x"), &stop);
        assert!(matches!(refused, Err(StudyError::Interrupted)), "nothing is begun after that");
    }
}
