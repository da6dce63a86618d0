//! Asking the monitor a question, as `ceph` would: for the verbs that need to know how a cluster is.
//!
//! Owns a small client over `monclient`, driven by a reactor of its own for as long as the question takes.

use crate::clock::entropy;
use crate::daemon::{Daemon, DaemonFailed, Output};
use crate::reactor::{self, ReactorConfig, Stopper};
use admin::Transport;
use base::rng::SecretRng;
use base::{Duration, Errno, Instant};
use bytes::Bytes;
use monclient::{Handled, MonClient, MonClientConfig, MonEvent};
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use wire::auth::Auth;
use wire::cephx::{AuthName, CryptoKey};
use wire::msgr::MessengerConfig;
use wire::net::{ConnIds, NetEvent};
use wire::types::{AddrVec, EntityAddr, EntityName, EntityType, Uuid};

/// How long an unsatisfying answer is left alone before the question is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(4);

/// Who asks, and whom.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The entity: `client.admin`.
    pub entity: AuthName,
    /// Its key.
    pub key: CryptoKey,
    /// The monitor.
    pub mon: AddrVec,
    /// The cluster.
    pub fsid: Uuid,
}

/// What the monitor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0, or a negated errno.
    pub code: i32,
    /// A line for a person.
    pub status: String,
    /// The command's output.
    pub output: Bytes,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Nobody answered in time.
    #[error("no answer from the monitor")]
    Silence,
    /// The monitor refuses us.
    #[error("the monitor refuses {0}: {1}")]
    Denied(AuthName, Errno),
    /// The sockets failed us.
    #[error(transparent)]
    Failed(#[from] DaemonFailed),
}

impl Asker {
    /// A reactor for a client that nobody connects to.
    pub(crate) fn reactor_config(&self) -> ReactorConfig {
        // The nonce tells this client from others of the same process; the driver knows the address better.
        let nonce = u32::from_le_bytes(entropy()[..4].try_into().expect("four bytes of thirty-two"));
        let addrs = AddrVec::one(EntityAddr::msgr2(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), nonce));
        let me = EntityName { kind: EntityType::CLIENT, num: -1 };
        ReactorConfig {
            messenger: MessengerConfig::new(me, addrs),
            entity: self.entity.to_string(),
            listeners: Vec::new(),
            hub: None,
            entropy: entropy(),
            admin_socket: None,
            pages: None,
        }
    }

    /// Asks once.
    pub fn ask(&self, command: &str, limit: Duration) -> Result<Answer, AskError> {
        self.ask_until(command, limit, |_| true)
    }

    /// Asks again and again until an answer is good enough or the time is up; the last answer is returned either way.
    pub fn ask_until(
        &self,
        command: &str,
        limit: Duration,
        enough: impl Fn(&Answer) -> bool + 'static,
    ) -> Result<Answer, AskError> {
        let outcome = Rc::new(RefCell::new(Err(AskError::Silence)));
        let theirs = outcome.clone();
        reactor::run(self.reactor_config(), &Stopper::default(), |now| {
            let mut mon_config =
                MonClientConfig::new(self.entity.clone(), Some(self.key.clone()), vec![self.mon.clone()]);
            mon_config.fsid = Some(self.fsid);
            let mut client = MonClient::new(now, mon_config, SecretRng::from_entropy(entropy()));
            client.command(vec![command.to_owned()], Bytes::new());
            Ok(Question {
                client,
                conns: ConnIds::default(),
                command: command.to_owned(),
                enough: Box::new(enough),
                outcome: theirs,
                deadline: now + limit,
                ask_at: None,
                done: false,
            })
        })?;
        Rc::try_unwrap(outcome).expect("the reactor and its daemon are gone").into_inner()
    }
}

struct Question {
    client: MonClient,
    conns: ConnIds,
    command: String,
    enough: Box<dyn Fn(&Answer) -> bool>,
    outcome: Rc<RefCell<Result<Answer, AskError>>>,
    deadline: Instant,
    ask_at: Option<Instant>,
    done: bool,
}

impl Question {
    fn hear(&mut self, now: Instant, event: MonEvent) {
        match event {
            MonEvent::CommandReply { reply, .. } => {
                let reply = *reply;
                let answer = Answer { code: reply.result, status: reply.status, output: reply.output };
                self.done = (self.enough)(&answer);
                *self.outcome.borrow_mut() = Ok(answer);
                self.ask_at = (!self.done).then_some(now + ASK_AGAIN);
            }
            MonEvent::Denied(errno) => {
                *self.outcome.borrow_mut() = Err(AskError::Denied(self.client.entity().clone(), errno));
                self.done = true;
            }
            _ => {}
        }
    }
}

impl Daemon for Question {
    fn handle_net(&mut self, now: Instant, event: NetEvent) {
        let (Handled::Yes | Handled::No) = self.client.handle_net(now, &event);
    }

    fn handle_timer(&mut self, now: Instant) {
        if self.deadline <= now {
            self.done = true;
        }
        if self.ask_at.is_some_and(|at| at <= now) {
            self.ask_at = None;
            self.client.command(vec![self.command.clone()], Bytes::new());
        }
        self.client.handle_timer(now);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        [Some(self.deadline), self.ask_at, self.client.next_wakeup()].into_iter().flatten().min()
    }

    fn auth(&mut self) -> &mut dyn Auth {
        self.client.auth()
    }

    fn poll(&mut self, now: Instant) -> Result<Option<Output>, DaemonFailed> {
        while let Some(event) = self.client.poll_event() {
            self.hear(now, event);
        }
        if self.done {
            return Ok(Some(Output::Stopped));
        }
        Ok(self.client.poll_command(&mut self.conns).map(Output::Net))
    }

    fn admin(&mut self, _now: Instant, _request: &str) -> Bytes {
        unreachable!("who asks a question has no admin socket")
    }

    fn note_transport(&mut self, _counts: &Transport) {}

    fn shutdown(&mut self, _now: Instant) {
        self.done = true;
    }
}
