//! One `ceph` that answers command after command, each a line to its input: to look at a cluster every half second with a
//! new one each time would take half of a processor from what is measured.
//!
//! Ceph v16.2 `src/ceph.in` (`main`): without a command on its line the tool reads commands, prints each answer to its
//! output and each refusal, which begins with `Error`, to the other one, and ends with its input.

use crate::error::StudyError;
use crate::stop::Stop;
use crate::tool;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often to look whether to go on waiting.
const POLL: Duration = Duration::from_millis(100);
/// How a refusal begins.
const REFUSED: &str = "Error";

/// A `ceph` that waits for commands.
#[derive(Debug)]
pub(crate) struct Conversation {
    ceph: Child,
    commands: ChildStdin,
    lines: Receiver<String>,
    stop: Stop,
}

impl Conversation {
    /// Starts `ceph`, as it is told which cluster to ask, for answers in JSON.
    pub(crate) fn begin(ceph: &mut Command, stop: &Stop) -> Result<Conversation, StudyError> {
        stop.check()?;
        // Else Python keeps its answers until it has more of them.
        ceph.args(["--format", "json"]).env("PYTHONUNBUFFERED", "1");
        let mut ceph = tool::start_to_talk(ceph.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let (commands, lines) = (ceph.stdin.take().expect("piped"), channel());
        send_lines(ceph.stdout.take().expect("piped"), lines.0.clone());
        send_lines(ceph.stderr.take().expect("piped"), lines.0);
        Ok(Conversation { ceph, commands, lines: lines.1, stop: stop.clone() })
    }

    /// The answer to a command.
    pub(crate) fn ask(&mut self, command: &str) -> Result<Value, StudyError> {
        let failed = |words: String| StudyError::Failed { command: format!("ceph {command}"), words };
        // One that does not read any more says by its end why.
        let _ = writeln!(self.commands, "{command}");
        let began = Instant::now();
        loop {
            self.stop.check()?;
            match self.lines.recv_timeout(POLL) {
                Ok(line) if line.starts_with(['{', '[']) => {
                    let what = "JSON".to_owned();
                    return serde_json::from_str(&line)
                        .map_err(|_| StudyError::Answer { command: format!("ceph {command}"), what });
                }
                Ok(line) if line.starts_with(REFUSED) => return Err(failed(line)),
                // Remarks.
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if began.elapsed() > PATIENCE => {
                    let what = format!("an answer of ceph {command}");
                    return Err(StudyError::Late { what, seconds: PATIENCE.as_secs() });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(failed("it has ended".to_owned())),
            }
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        tool::kill(&mut self.ceph);
    }
}

/// Sends what can be read there, line by line, until its end.
fn send_lines(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool that echoes what it is asked, as far as that is JSON, and refuses what is not.
    fn echo() -> Command {
        let mut shell = Command::new("sh");
        let each = r#"while read -r line; do case "$line" in "{"*) echo "$line";; *) echo remark; echo "Error EINVAL: $line" >&2;; esac; done"#;
        shell.args(["-c", each, "sh"]);
        shell
    }

    #[test]
    fn answers_and_refusals_come_one_after_the_other() {
        let stop = Stop::default();
        let mut told = Conversation::begin(&mut echo(), &stop).expect("a shell");
        assert_eq!(told.ask(r#"{"a":1}"#).expect("an answer")["a"], 1);
        let refused = told.ask("nonsense").expect_err("no command").to_string();
        assert_eq!(refused, "ceph nonsense: Error EINVAL: nonsense");
        assert_eq!(told.ask(r#"{"a":2}"#).expect("an answer")["a"], 2);
        let cut = told.ask(r#"{"a"#).expect_err("half of an answer").to_string();
        assert!(cut.contains("its answer lacks JSON"), "{cut}");
    }

    #[test]
    fn nobody_waits_for_one_that_is_gone_or_when_it_is_time_to_stop() {
        let stop = Stop::default();
        let mut gone = Conversation::begin(Command::new("sh").args(["-c", "exit 3", "sh"]), &stop).expect("a shell");
        assert_eq!(gone.ask("status").expect_err("nobody").to_string(), "ceph status: it has ended");
        let soon = Stop::after(Duration::from_millis(100));
        let mut deaf =
            Conversation::begin(Command::new("sh").args(["-c", "sleep 86400", "sh"]), &soon).expect("a shell");
        assert!(matches!(deaf.ask("status"), Err(StudyError::Interrupted)));
    }
}
