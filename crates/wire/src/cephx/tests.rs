//! Tests of cephx: captured exchanges of real Ceph, our own two sides against each other, hostile bytes.

mod exchange;
mod golden;
mod hostile;

use super::*;
use crate::auth::{
    AUTH_CEPHX, AuthClient, AuthServer, Authenticated, ClientDone, ClientExchange, ConMode, ServerExchange, ServerStep,
};
use crate::types::EntityType;
use base::rng::SecretRng;
use base::{Duration, Errno, Instant};
use bytes::Bytes;

/// A date all tests start from.
const T0: Instant = Instant::from_secs(1_800_000_000);
/// What librados asks for: monitor, OSD and manager tickets.
const WANT: u32 = 0x15;

fn rng(seed: u8) -> SecretRng {
    SecretRng::from_entropy([seed; 32])
}

fn name(text: &str) -> AuthName {
    AuthName::parse(text).expect("a literal name")
}

/// A monitor that knows client.admin, client.nocaps (no monitor caps) and osd.0.
fn monitor() -> (MonAuth, CryptoKey, CryptoKey) {
    let mut rng = rng(1);
    let mut keys = KeyServer::new(KeyServerConfig::default());
    let admin = CryptoKey::generate(T0, &mut rng);
    let osd = CryptoKey::generate(T0, &mut rng);
    let all = |services: &[&str]| services.iter().map(|s| ((*s).to_owned(), "allow *".to_owned())).collect();
    keys.set(name("client.admin"), EntityAuth { key: admin.clone(), caps: all(&["mon", "osd", "mgr"]) });
    keys.set(name("client.nocaps"), EntityAuth { key: admin.clone(), caps: all(&["osd"]) });
    keys.set(name("osd.0"), EntityAuth { key: osd.clone(), caps: all(&["mon", "osd"]) });
    let mut mon = MonAuth::new(keys, vec![ConMode::Secure, ConMode::Crc], rng);
    mon.rotate(T0);
    (mon, admin, osd)
}

fn client(who: &str, key: &CryptoKey) -> CephxClient {
    CephxClient::new(name(who), Some(key.clone()), WANT, ClientModes::default(), rng(2))
}

/// Runs one handshake to its end, as the messenger does.
fn handshake(
    now: Instant,
    client: &mut CephxClient,
    server: &mut dyn AuthServer,
    kind: EntityType,
) -> Result<(Authenticated, ClientDone), Errno> {
    let mut ours = ClientExchange::default();
    let request = client.request(now, kind, &mut ours)?;
    let mut theirs = ServerExchange {
        method: request.method,
        preferred_modes: request.preferred_modes,
        ..ServerExchange::default()
    };
    let mut payload = request.payload;
    for _ in 0..4 {
        match server.step(now, client.name().kind, &mut theirs, &payload) {
            ServerStep::More(more) => payload = client.more(now, kind, &mut ours, &more)?,
            ServerStep::Refused(errno) => return Err(errno),
            ServerStep::Done(done) => {
                let client_done = client.done(now, kind, &mut ours, done.global_id, done.con_mode, &done.payload)?;
                return Ok((*done, client_done));
            }
        }
    }
    panic!("the handshake does not end");
}

/// A daemon that verifies authorizers, as monclient does.
struct Daemon(ServiceVerifier, SecretRng);

impl AuthServer for Daemon {
    fn step(&mut self, _: Instant, kind: EntityType, exchange: &mut ServerExchange, payload: &Bytes) -> ServerStep {
        self.0.step(&mut self.1, kind, exchange, payload)
    }
    fn methods(&self) -> Vec<u32> {
        vec![AUTH_CEPHX]
    }
    fn modes(&self, peer_kind: EntityType) -> Vec<ConMode> {
        self.0.modes(peer_kind).to_vec()
    }
}

/// An OSD with the rotating secrets that `mon` gives osd.0 over `MAuth`.
fn osd_daemon(now: Instant, mon: &mut MonAuth, key: &CryptoKey) -> Daemon {
    let mut osd = client("osd.0", key);
    let reply = mon.message(now, &name("osd.0"), 0, &CephxClient::rotating_request()).expect("osd.0 may ask");
    let mut verifier = ServiceVerifier::new(EntityType::OSD, ServerModes::default());
    match osd.reply(now, &reply).expect("sealed with osd.0's key") {
        client::Reply::Rotating(secrets) => verifier.set_secrets(secrets),
        other => panic!("asked for rotating secrets, got {other:?}"),
    }
    Daemon(verifier, rng(3))
}
