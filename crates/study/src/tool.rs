//! Programs that a study runs: their answers, and their last words when they fail.

use crate::error::StudyError;
use std::process::{Command, Stdio};

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// What a program prints, once it has ended well.
pub(crate) fn output(command: &mut Command) -> Result<String, StudyError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().map_err(|source| StudyError::NoProgram { program, source })?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let words = last.map_or_else(|| done.status.to_string(), |line| line.trim().to_owned());
    Err(StudyError::Failed { command: shown(command), words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_one_line_that_names_the_command() {
        let line =
            output(Command::new("sh").args(["-c", "echo first >&2; echo why >&2; exit 3"])).expect_err("it fails");
        assert_eq!(line.to_string(), "sh -c echo first >&2; echo why >&2; exit 3: why");
        let line = output(&mut Command::new("no-such-program")).expect_err("there is none").to_string();
        assert!(line.starts_with("no-such-program is needed and does not start: "), "{line}");
        assert_eq!(output(Command::new("echo").arg("x")).expect("it ends well"), "x\n");
    }
}
