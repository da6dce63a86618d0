//! What can go wrong with a study, each in one line that says what to do.

use std::path::PathBuf;

/// Why a study did not end.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The study cannot run there.
    #[error("the study {study} does not run --on {on}: {instead}")]
    NotThere {
        /// Which study.
        study: &'static str,
        /// Where it was to run.
        on: String,
        /// Where it does.
        instead: &'static str,
    },
    /// An option that makes no sense.
    #[error("--{option}: {why}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The directory holds runs that were made with other options.
    #[error("{dir} holds runs of another study ({what}: {found} there, {wanted} here): choose another --out", dir = dir.display())]
    OtherOptions {
        /// The directory.
        dir: PathBuf,
        /// The first difference.
        what: String,
        /// Its value there.
        found: String,
        /// Its value here.
        wanted: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of an earlier run cannot be understood.
    #[error("{path}: not a run's record ({why}): remove it to repeat the run", path = path.display())]
    Record {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A program that the study needs is not there.
    #[error("{program} is needed and does not start: {source}")]
    NoProgram {
        /// Which.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("{command}: {words}")]
    Failed {
        /// What was run.
        command: String,
        /// The last line it said.
        words: String,
    },
    /// A program's answer cannot be understood.
    #[error("{command}: its answer lacks {what}")]
    Answer {
        /// What was run.
        command: String,
        /// What was looked for.
        what: String,
    },
    /// The cluster has a pool that is named as one of the study's, which are removed when it ends.
    #[error("the cluster has a pool {0}, which the study would make and then remove: rename or remove it first")]
    PoolExists(String),
    /// Something was waited for in vain.
    #[error("after {seconds} s still not: {what}")]
    Late {
        /// What.
        what: String,
        /// How long.
        seconds: u64,
    },
    /// It was asked to stop.
    #[error("interrupted; the same command goes on from there")]
    Interrupted,
    /// It ended early, and not all of what it had changed could be put back.
    #[error("{error}; left behind: {left}")]
    LeftBehind {
        /// Why it ended.
        error: Box<StudyError>,
        /// What is not as it was.
        left: String,
    },
    /// This machine lacks or forbids what the study needs.
    #[error("not possible on this machine: {0}")]
    Machine(String),
}

impl StudyError {
    /// For `map_err` on what has to do with a file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> StudyError {
        let path = path.into();
        move |source| StudyError::File { path, source }
    }
}
