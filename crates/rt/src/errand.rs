//! An errand to the OSDs of a cluster: objects to read and questions to daemons, for verbs that are over in a moment.
//!
//! Owns a stock client (the engine of crate `client`), driven by a reactor of its own for as long as the errand takes. What
//! has no answer in time is left without one; the rest counts.

use crate::ask::{AskError, Asker};
use crate::clock::entropy;
use crate::daemon::{Daemon, DaemonFailed, Output};
use crate::reactor::{self, Stopper};
use admin::Transport;
use base::rng::SecretRng;
use base::{Duration, Errno, Instant, OsdId, PoolId};
use bytes::Bytes;
use client::{Client, ClientConfig, CommandId, OpId, Request, Target};
use monclient::MonClientConfig;
use std::cell::RefCell;
use std::rc::Rc;
use wire::Decode;
use wire::auth::Auth;
use wire::net::NetEvent;
use wire::osd::payload::KeyValues;

/// One thing to find out.
#[derive(Clone, Debug)]
pub enum Question {
    /// What an object's data is.
    Data {
        /// Its pool.
        pool: PoolId,
        /// Its namespace; empty for the default one.
        nspace: String,
        /// Its name.
        object: String,
    },
    /// What stands under a key of an object's map; ENOENT where there is no such key.
    Value {
        /// Its pool.
        pool: PoolId,
        /// Its namespace; empty for the default one.
        nspace: String,
        /// Its name.
        object: String,
        /// The key.
        key: String,
    },
    /// What an OSD answers to a command, one JSON object.
    Tell(OsdId, String),
}

/// What was found out: bytes, or why not. ETIMEDOUT where nobody has answered in time.
pub type Found = Result<Bytes, Errno>;

impl Asker {
    /// Runs an errand; gives what was found to each question in its place.
    pub fn find_out(&self, questions: &[Question], limit: Duration) -> Result<Vec<Found>, AskError> {
        let found = Rc::new(RefCell::new(Ok(vec![Err(Errno::ETIMEDOUT); questions.len()])));
        let theirs = found.clone();
        reactor::run(self.reactor_config(), &Stopper::default(), |now| {
            let mut mon = MonClientConfig::new(self.entity.clone(), Some(self.key.clone()), vec![self.mon.clone()]);
            mon.fsid = Some(self.fsid);
            let config = ClientConfig { mon, features: wire::msgr::features::SUPPORTED, follows_maps: true };
            let mut client = Client::new(now, config, SecretRng::from_entropy(entropy()));
            for (number, question) in (0..).zip(questions) {
                ask(&mut client, now, number, question);
            }
            Ok(Errand {
                client,
                open: questions.len(),
                found: theirs,
                deadline: now + limit,
                over: false,
                asker: self.clone(),
            })
        })?;
        let found = Rc::try_unwrap(found).expect("the reactor and its daemon are gone").into_inner()?;
        Ok(questions
            .iter()
            .zip(found)
            .map(|(question, found)| found.and_then(|bytes| wanted(question, bytes)))
            .collect())
    }
}

/// What is wanted of an OSD's answer.
fn wanted(question: &Question, bytes: Bytes) -> Found {
    let Question::Value { key, .. } = question else { return Ok(bytes) };
    let mut pairs = KeyValues::from_bytes(&bytes).map_err(|_| Errno::EIO)?;
    pairs.remove(key.as_bytes()).ok_or(Errno::ENOENT)
}

fn ask(client: &mut Client, now: Instant, number: u64, question: &Question) {
    let target = |pool: &PoolId, nspace: &String, object: &String| {
        let nspace = Bytes::from(nspace.clone().into_bytes());
        Target { nspace, ..Target::object(*pool, object.clone().into_bytes()) }
    };
    let request = match question {
        Question::Tell(osd, command) => return client.tell(CommandId(number), *osd, command.clone()),
        Question::Data { pool, nspace, object } => Request::new(target(pool, nspace, object)).read(0, 0),
        Question::Value { pool, nspace, object, key } => {
            let keys = [Bytes::from(key.clone().into_bytes())].into();
            Request::new(target(pool, nspace, object)).omap_values_of(&keys)
        }
    };
    client.submit(now, OpId(number), request).expect("an errand is small, and its questions are numbered");
}

struct Errand {
    client: Client,
    /// Questions without an answer.
    open: usize,
    found: Rc<RefCell<Result<Vec<Found>, AskError>>>,
    deadline: Instant,
    /// The time is up, or nobody waits any more.
    over: bool,
    asker: Asker,
}

impl Errand {
    fn note(&mut self, number: u64, found: Found) {
        if let Ok(all) = &mut *self.found.borrow_mut() {
            all[number as usize] = found;
        }
        self.open -= 1;
    }

    fn hear(&mut self) {
        while let Some(done) = self.client.poll_completion() {
            let found = match done.result {
                Ok(reply) => reply.errno().map_or_else(|| Ok(reply.output(0)), Err),
                Err(client::Failure::Refused(errno)) => Err(errno),
                Err(client::Failure::TimedOut) => Err(Errno::ETIMEDOUT),
            };
            self.note(done.id.0, found);
        }
        while let Some(reply) = self.client.poll_reply() {
            let found = if reply.result < 0 { Err(Errno(-reply.result)) } else { Ok(reply.output) };
            self.note(reply.id.0, found);
        }
    }
}

impl Daemon for Errand {
    fn handle_net(&mut self, now: Instant, event: NetEvent) {
        self.client.handle_net(now, event);
    }

    fn handle_timer(&mut self, now: Instant) {
        self.client.handle_timer(now);
        self.over |= self.deadline <= now;
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.client.next_wakeup().into_iter().chain([self.deadline]).min()
    }

    fn auth(&mut self) -> &mut dyn Auth {
        self.client.auth()
    }

    fn poll(&mut self, now: Instant) -> Result<Option<Output>, DaemonFailed> {
        let command = self.client.poll_command(now);
        self.hear();
        if let Some(errno) = self.client.denied() {
            *self.found.borrow_mut() = Err(AskError::Denied(self.asker.entity.clone(), errno));
            return Ok(Some(Output::Stopped));
        }
        if self.over || self.open == 0 {
            return Ok(Some(Output::Stopped));
        }
        Ok(command.map(Output::Net))
    }

    fn admin(&mut self, _now: Instant, _request: &str) -> Bytes {
        unreachable!("an errand has no admin socket")
    }

    fn note_transport(&mut self, _counts: &Transport) {}

    fn shutdown(&mut self, _now: Instant) {
        self.over = true;
    }
}
