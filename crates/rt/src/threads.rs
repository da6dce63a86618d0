//! Daemons as threads of this process: starting them, watching them, stopping them in order.

use crate::daemon::DaemonFailed;
use crate::reactor::Stopper;
use crate::signals::StopSignals;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::Notify;

/// One daemon on a thread of its own.
#[derive(Debug)]
pub struct DaemonThread {
    name: String,
    stopper: Stopper,
    handle: JoinHandle<Result<(), DaemonFailed>>,
}

/// The daemons of this process, the monitor first where it is among them.
#[derive(Debug, Default)]
pub struct DaemonThreads {
    threads: Vec<DaemonThread>,
    ended: Arc<Notify>,
}

/// Rings when a thread ends, also when it panics.
struct Bell(Arc<Notify>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl DaemonThreads {
    /// Starts one more daemon: `run` gets `setup` and works until it is asked to stop.
    pub fn start<S: Send + 'static>(
        &mut self,
        name: &str,
        setup: S,
        run: impl FnOnce(S, &Stopper) -> Result<(), DaemonFailed> + Send + 'static,
    ) -> io::Result<()> {
        let stopper = Stopper::default();
        let (theirs, bell) = (stopper.clone(), Bell(self.ended.clone()));
        let body = move || {
            let _bell = bell;
            run(setup, &theirs)
        };
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        self.threads.push(DaemonThread { name: name.to_owned(), stopper, handle });
        Ok(())
    }

    /// A daemon that has ended although nobody asked it to.
    pub fn ended_early(&self) -> Option<&str> {
        self.threads.iter().find(|t| t.handle.is_finished()).map(|t| t.name.as_str())
    }

    /// Waits for a signal or for a daemon that ends by itself, then stops all.
    pub fn run_until_stopped(self, signals: &mut StopSignals) -> Result<(), DaemonFailed> {
        let ended = self.ended.clone();
        signals.wait(ended.notified());
        self.stop()
    }

    /// Stops all: the OSDs first and together, which tell the monitor that they leave; then the monitor.
    pub fn stop(self) -> Result<(), DaemonFailed> {
        let (monitors, others): (Vec<_>, Vec<_>) = self.threads.into_iter().partition(|t| t.name.starts_with("mon."));
        let mut result = Ok(());
        for group in [others, monitors] {
            group.iter().for_each(|t| t.stopper.stop());
            for DaemonThread { name, handle, .. } in group {
                let ended = handle.join().unwrap_or_else(|panic| {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let reason = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned();
                    Err(DaemonFailed { daemon: name, reason })
                });
                // The first failure is the cause; later ones follow from it.
                result = result.and(ended);
            }
        }
        result
    }
}
