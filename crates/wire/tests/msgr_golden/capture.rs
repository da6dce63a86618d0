//! Captured connections and their secrets.

use bytes::{Bytes, BytesMut};
use std::path::PathBuf;
use wire::auth::{AuthClient, ClientExchange, ConMode, Secrets};
use wire::cephx::protocol::AuthorizeReply;
use wire::cephx::{AuthName, CephxClient, ClientModes, envelope};
use wire::codec::Decoder;
use wire::keyring::Keyring;
use wire::msgr::banner;
use wire::msgr::control::{
    AuthDone, AuthReplyMore, AuthRequest, AuthRequestMore, ClientIdent, Control, Hello, ServerIdent,
};
use wire::msgr::crypto::{Side, aes_gcm};
use wire::msgr::frame::FrameReader;
use wire::msgr::tag::Tag;
use wire::types::EntityType;

/// The folders of captured streams.
pub(crate) const MODES: [&str; 2] = ["crc", "secure"];

/// The connections of one `rados put`.
pub(crate) const CONNECTIONS: [(&str, EntityType); 3] =
    [("00_mon", EntityType::MON), ("01_mgr", EntityType::MGR), ("02_osd", EntityType::OSD)];

/// A path among the golden files.
pub(crate) fn golden(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path)
}

/// One captured connection, with what its handshake said.
pub(crate) struct Capture {
    name: String,
    pub(crate) kind: EntityType,
    pub(crate) secure: bool,
    up: Vec<u8>,
    down: Vec<u8>,
    pub(crate) secrets: Secrets,
    pub(crate) hello: [Hello; 2],
    pub(crate) request: AuthRequest,
    pub(crate) reply_more: AuthReplyMore,
    pub(crate) request_more: AuthRequestMore,
    pub(crate) done: AuthDone,
    pub(crate) client_ident: ClientIdent,
    pub(crate) server_ident: ServerIdent,
}

impl core::fmt::Debug for Capture {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The first frame with its tag in one direction, opened where it is sealed.
fn first<C: Control>(bytes: &[u8], side: Side, secret: Option<&Bytes>) -> C {
    let mut buf = BytesMut::from(bytes);
    banner::take(&mut buf).expect("a banner");
    let mut reader = FrameReader::default();
    while let Some(frame) = reader.next(&mut buf).expect("a readable frame") {
        if frame.tag == C::TAG {
            return frame.control().expect("a payload of its type");
        }
        if let Some(secret) = secret
            && matches!(frame.tag, Tag::AuthDone | Tag::AuthRequestMore)
        {
            reader.secure(aes_gcm(secret, side).expect("a long secret").rx);
        }
    }
    panic!("no {} in {} bytes", C::TAG, bytes.len());
}

impl Capture {
    /// Loads a connection and finds its secrets with the cluster's keys.
    pub(crate) fn load(mode: &str, (name, kind): (&str, EntityType)) -> Capture {
        let read = |file: String| std::fs::read(golden(&format!("streams/{mode}/{file}"))).expect("a captured stream");
        let (up, down) = (read(format!("{name}.c.bin")), read(format!("{name}.s.bin")));
        let done: AuthDone = first(&down, Side::Connecting, None);
        let secure = done.con_mode == ConMode::Secure as u32;
        let client = client(mode);
        let secrets = if kind == EntityType::MON {
            client.1
        } else {
            let key = client.0.tickets().session_key(kind).expect("a ticket").clone();
            let reply: AuthorizeReply =
                envelope::get_sealed(&mut Decoder::shared(&done.payload), &key).expect("the ticket's key opens it");
            Secrets { session_key: key.secret().clone(), connection_secret: reply.connection_secret }
        };
        let secret = secure.then_some(&secrets.connection_secret);
        Capture {
            name: format!("{mode}/{name}"),
            kind,
            secure,
            hello: [first(&up, Side::Accepting, None), first(&down, Side::Connecting, None)],
            request: first(&up, Side::Accepting, None),
            reply_more: first(&down, Side::Connecting, None),
            request_more: first(&up, Side::Accepting, None),
            client_ident: first(&up, Side::Accepting, secret),
            server_ident: first(&down, Side::Connecting, secret),
            done,
            secrets,
            up,
            down,
        }
    }

    /// What `side` sent.
    pub(crate) fn bytes(&self, side: Side) -> &[u8] {
        if side == Side::Connecting { &self.up } else { &self.down }
    }
}

/// The client of a folder's streams after its handshake with the monitor, and the secrets of that.
fn client(mode: &str) -> (CephxClient, Secrets) {
    let keyring = std::fs::read_to_string(golden(&format!("streams/{mode}/keyring"))).expect("the keyring");
    let name = AuthName::parse("client.admin").expect("a name");
    let key = Keyring::parse(&keyring).expect("a keyring").entities[&name].key.clone();
    let rng = base::rng::SecretRng::from_entropy([0; 32]);
    let want = [EntityType::MDS, EntityType::OSD, EntityType::MGR].map(|kind| u32::from(kind.0)).iter().sum();
    let mut client = CephxClient::new(name, Some(key), want, ClientModes::default(), rng);
    let down = std::fs::read(golden(&format!("streams/{mode}/00_mon.s.bin"))).expect("the monitor's stream");
    let (more, done): (AuthReplyMore, AuthDone) =
        (first(&down, Side::Connecting, None), first(&down, Side::Connecting, None));
    let (now, mut exchange) = (base::Instant::from_secs(1_700_000_000), ClientExchange::default());
    client.request(now, EntityType::MON, &mut exchange).expect("there is a key");
    client.more(now, EntityType::MON, &mut exchange, &more.payload).expect("a challenge");
    let con_mode = ConMode::from_wire(done.con_mode).expect("a known mode");
    let result = client.done(now, EntityType::MON, &mut exchange, done.global_id, con_mode, &done.payload);
    (client, result.expect("our key opens the monitor's answer").secrets)
}
