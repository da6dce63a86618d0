//! A progress bar on a terminal, nothing in a pipe.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Steps that each piece of work may divide a run into.
const STEPS_PER_RUN: u64 = 1000;

/// How far a study is.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    done_runs: u64,
}

impl Progress {
    /// A bar for so many runs, on standard error if that is a terminal.
    pub fn new(runs: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(runs * STEPS_PER_RUN), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30} {percent:>3}% {elapsed} {wide_msg}");
        bar.set_style(style.expect("a template that is sound"));
        Progress { bar, done_runs: 0 }
    }

    /// Says what goes on.
    pub fn say(&self, words: &str) {
        self.bar.set_message(words.to_owned());
    }

    /// So much of the present run is done, from 0 to 1.
    pub fn part(&self, done: f64) {
        let steps = (done.clamp(0.0, 1.0) * STEPS_PER_RUN as f64) as u64;
        self.bar.set_position(self.done_runs * STEPS_PER_RUN + steps);
    }

    /// The present run is done.
    pub fn run_done(&mut self) {
        self.done_runs += 1;
        self.part(0.0);
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
