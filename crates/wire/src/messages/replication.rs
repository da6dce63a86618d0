//! What Loligo's OSDs say to each other: replicated writes, peering, copies of objects.
//!
//! The format is ours, not Ceph's: type numbers from 0x4C00, where Ceph has none. Structures that belong to the OSD
//! (log entries, PG records, transactions, object names) travel as blobs that crate `osd` opens.
//!
//! Every message but `OsdRoom`, `OsdTenants` and `OsdPing` names its placement group, the sender's map epoch (`map_epoch`), by which
//! a receiver tells a message of a past interval and waits for a map that it does not have yet, and the peering it
//! belongs to (`peering`: the primary's map epoch when that began; answers echo it).

use super::body::message;
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use base::{EVersion, Epoch, PgId};
use bytes::Bytes;

message! {
    /// Primary to replica: apply this write.
    SubWrite(0x4C00, 2, 2) {
        /// The placement group.
        pg: PgId,
        /// The peering that made the receiver a replica.
        peering: Epoch,
        /// The write's version; each follows the one before it.
        version: EVersion,
        /// Entries up to this one may be forgotten.
        trim_to: EVersion,
        /// The tenant for whom it is done, by the hash of its name; 0 for none.
        tenant: u64,
        /// The receiver does not have the object as it was before: it only logs the write, and lacks the object.
        logged_only: bool,
        /// The log entry.
        entry: Bytes,
        /// The transaction, its large payloads left out; empty where it is only logged.
        transaction: Bytes,
    }
    + {
        /// The payloads.
        payload,
        /// What is known of their checksums.
        sums
    }

    /// Replica to primary: these writes are durable here, in this order.
    SubCommit(0x4C01, 2, 2) {
        /// Each of them, of one placement group or several.
        writes: Vec<Confirmed>,
    }

    /// To everyone with whom placement groups are shared: so much room is left here. Of no group, map or peering.
    OsdRoom(0x4C0F, 1, 1) {
        /// What the store can use, in bytes.
        total: u64,
        /// What of that is free.
        free: u64,
    }

    /// To every OSD: so much was served here of what tenants are promised. Of no group, map or peering.
    OsdTenants(0x4C17, 1, 1) {
        /// Each tenant of which there is news.
        tenants: Vec<TenantNews>,
    }

    /// To those with whom placement groups are shared, and back: a sign of life. Of no group, map or peering.
    OsdPing(0x4C18, 1, 1) {
        /// When the one who asks sent it, by its own clock, in nanoseconds; an answer repeats it.
        sent_ns: u64,
        /// For how long after that the one who asks relies on the answer; in an answer, 0 where it promises nothing.
        lease_ns: u64,
        /// Whether it is an answer.
        answers: bool,
        /// Whether another's ping has brought it about: it brings about none itself.
        returned: bool,
    }

    /// Primary to anyone who may hold the placement group: what do you have?
    PgQuery(0x4C02, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
    }

    /// The answer.
    PgNotify(0x4C03, 2, 2) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The query's.
        peering: Epoch,
        /// The map in which the sender's store was new: it lost, or never had, what is older.
        born: Epoch,
        /// The record of the placement group, if the sender has it.
        info: Option<Bytes>,
        /// Objects of which the log tells and that the sender lacks.
        missing: u64,
    }

    /// Primary to the holder of the newest log: give me all of it.
    PgLogQuery(0x4C04, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
    }

    /// The answer.
    PgLog(0x4C05, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The query's.
        peering: Epoch,
        /// The sender's record.
        info: Bytes,
        /// The sender's log entries.
        entries: Vec<Bytes>,
    }

    /// Primary to member: take my log as yours, and say what you lack.
    PgActivate(0x4C06, 2, 2) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// A version that is part of the receiver's log and of the sender's; `entries` then are those after it, else
        /// all.
        since: Option<EVersion>,
        /// The sender's record.
        info: Bytes,
        /// Log entries.
        entries: Vec<Bytes>,
        /// Whether the receiver serves; else what it lacks is recovered beside those who do.
        serves: bool,
    }

    /// The answer, once that is durable.
    PgActivated(0x4C07, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// From the request.
        peering: Epoch,
        /// How far the sender's objects are those of the log.
        last_backfill: Bytes,
        /// The objects that the sender lacks, each with what is to be had of it.
        missing: Vec<(Bytes, Bytes)>,
    }

    /// To whoever is copied from: give me (a piece of) a life of an object.
    PgPull(0x4C08, 5, 5) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// Tells one attempt from the next.
        round: u32,
        /// The object.
        object: Bytes,
        /// From which byte.
        offset: u64,
        /// From after which key of the map; empty from the first.
        omap_after: Bytes,
        /// The version that would do although newer ones were written, which are given up; zero for none.
        reverted_to: EVersion,
        /// As long as which hold of the receiver's this is to be answered; 0 where the sender is the primary.
        hold: u32,
        /// Whether a client waits for the object.
        urgent: bool,
        /// The tenant whose request waits for the object, by the hash of its name; 0 for none.
        tenant: u64,
    }

    /// To whom an object is pulled from: a client has come to wait for it. Without an answer.
    PgHurry(0x4C19, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// The object's head.
        object: Bytes,
    }

    /// The answer.
    PgPush(0x4C09, 3, 3) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// From the request.
        peering: Epoch,
        /// From the request.
        round: u32,
        /// The object.
        object: Bytes,
        /// The sender cannot tell: it lacks the object itself, or its store failed. The rest but the next is empty.
        unknown: bool,
        /// The version at which it has what it lacks; zero for none.
        has: EVersion,
        /// Whether it exists; if not, the rest is empty.
        exists: bool,
        /// Its size.
        size: u64,
        /// From the request: the first byte of the data.
        offset: u64,
        /// All attributes, in the first piece.
        attrs: Vec<(Bytes, Bytes)>,
        /// The map's header, in the first piece.
        omap_header: Bytes,
        /// Entries of the map.
        omap: Vec<(Bytes, Bytes)>,
        /// Whether more entries follow.
        omap_more: bool,
        /// From the request.
        tenant: u64,
    }
    + {
        /// Bytes from `offset`.
        bytes
    }

    /// Primary to member: fetch an object that you lack from me; I hold it still meanwhile.
    PgRecover(0x4C10, 3, 3) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// The object's head.
        object: Bytes,
        /// What is to be had of it.
        need: Bytes,
        /// Tells this time of holding it still from others, from 1 on; the same where the request is repeated.
        hold: u32,
        /// The tenant whose request waits for the object, by the hash of its name; 0 for none.
        tenant: u64,
    }

    /// The answer.
    PgRecovered(0x4C11, 2, 2) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// From the request.
        peering: Epoch,
        /// From the request.
        object: Bytes,
        /// From the request.
        hold: u32,
        /// Whether it is in place, durably.
        done: bool,
    }

    /// Primary to member: keep a slot for work on this placement group, or give it free.
    PgReserve(0x4C12, 2, 2) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// For which work.
        work: SlotWork,
        /// Who has a higher one gets slots first.
        priority: u8,
        /// Whether a slot is wanted; if not, it is free again.
        wanted: bool,
    }

    /// The answer to who wants one; a slot that was granted may also be taken back by it.
    PgReserved(0x4C13, 2, 2) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// From the request.
        peering: Epoch,
        /// From the request.
        work: SlotWork,
        /// What is said.
        answer: SlotAnswer,
    }

    /// Primary to member: show what you hold of a range of objects; nobody writes to them meanwhile.
    PgScrub(0x4C14, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// Tells one attempt from the next.
        round: u32,
        /// The first place of the range; none for the beginning.
        from: Option<Bytes>,
        /// The first place after it; none for the end.
        to: Option<Bytes>,
        /// Whether data and maps are to be read, too.
        deep: bool,
        /// Whether clients wait for it.
        urgent: bool,
    }

    /// The answer.
    PgScrubbed(0x4C15, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// From the request.
        peering: Epoch,
        /// From the request.
        round: u32,
        /// The objects; none where the sender's store cannot tell which there are.
        objects: Option<Bytes>,
    }

    /// Primary to member: what the scrub came to, which is over.
    PgScrubEnd(0x4C16, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// What the placement group's record says of scrubs from now on.
        record: Bytes,
    }

    /// Primary to a member that is being filled: these objects come next.
    PgBackfill(0x4C0A, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// The first place of the part.
        from: Bytes,
        /// The first place after it; none at the end.
        to: Option<Bytes>,
        /// The sender's last write when it looked.
        at: EVersion,
        /// The heads in it, each with its version.
        heads: Vec<(Bytes, EVersion)>,
    }

    /// The answer, durable: what differs counts as missing, everything else up to there as had. One that ends where the
    /// part begins says that the part is to be looked at anew.
    PgBackfilled(0x4C0B, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// From the request.
        peering: Epoch,
        /// From the request.
        to: Option<Bytes>,
        /// The newest write that is accounted for.
        at: EVersion,
        /// The objects of the part that the sender lacks, each with what is to be had of it.
        missing: Vec<(Bytes, Bytes)>,
    }

    /// Primary to a former member: everybody who should has the placement group; remove yours.
    PgRemove(0x4C0C, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
    }

    /// Replica to primary: up to where does every member have everything?
    PgCommittedQuery(0x4C0D, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering that made the sender a replica.
        peering: Epoch,
    }

    /// The answer.
    PgCommitted(0x4C0E, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// From the query.
        peering: Epoch,
        /// Every member has everything up to this version, durably; none where the sender does not serve in this peering.
        version: Option<EVersion>,
    }
}

/// Writes an enum as the byte that is its value.
macro_rules! byte_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $value,)*
        }

        impl Encode for $name {
            fn encode(&self, e: &mut Encoder) {
                e.u8(*self as u8);
            }
        }

        impl Decode for $name {
            const MIN_BYTES: usize = 1;
            fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
                match d.u8()? {
                    $($value => Ok($name::$variant),)*
                    _ => Err(Malformed::new(stringify!($name), "is unknown")),
                }
            }
        }
    };
}

byte_enum! {
    /// The work that a slot is for.
    SlotWork {
        /// Copies are compared.
        #[default]
        Scrub = 0,
        /// Members get the objects that they lack of the log's.
        Recovery = 1,
        /// Members are filled.
        Backfill = 2,
    }
}

byte_enum! {
    /// What is said of a slot.
    SlotAnswer {
        /// It is kept.
        #[default]
        Granted = 0,
        /// There is none.
        Refused = 1,
        /// The store is too full for this work, which is to stop here.
        TooFull = 2,
        /// Other work needs it more: it is kept no longer.
        Revoked = 3,
    }
}

/// A write that a replica has made durable, with all before it in its placement group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confirmed {
    /// The placement group.
    pub pg: PgId,
    /// From the write.
    pub peering: Epoch,
    /// The newest durable version.
    pub version: EVersion,
}

impl Encode for Confirmed {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.pg);
        e.put(&self.peering);
        e.put(&self.version);
    }
}

impl Decode for Confirmed {
    const MIN_BYTES: usize = PgId::MIN_BYTES + Epoch::MIN_BYTES + EVersion::MIN_BYTES;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Confirmed { pg: d.get()?, peering: d.get()?, version: d.get()? })
    }
}

/// What was served of a tenant since its OSD told this the last time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantNews {
    /// Which: a hash of its name.
    pub tenant: u64,
    /// Operations.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Of its reservation, in nanoseconds: 10^9 are what is reserved for a second.
    pub reserved_ns: u64,
    /// More would be served if the limit let it.
    pub waits: bool,
}

impl Encode for TenantNews {
    fn encode(&self, e: &mut Encoder) {
        [self.tenant, self.requests, self.bytes, self.reserved_ns].into_iter().for_each(|number| e.u64(number));
        e.bool(self.waits);
    }
}

impl Decode for TenantNews {
    const MIN_BYTES: usize = 33;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (tenant, requests, bytes, reserved_ns) = (d.u64()?, d.u64()?, d.u64()?, d.u64()?);
        Ok(TenantNews { tenant, requests, bytes, reserved_ns, waits: d.bool()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Message;
    use base::PoolId;
    use base::sums::Sums;

    fn blob(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn every_message_round_trips_and_no_prefix_of_it_is_taken_for_it() {
        let (pg, map_epoch, peering) = (PgId::new(PoolId(3), 7), Epoch(9), Epoch(8));
        let version = EVersion::new(Epoch(8), 77);
        let messages: Vec<Message> = vec![
            SubWrite {
                pg,
                peering,
                version,
                trim_to: version,
                tenant: 7,
                logged_only: false,
                entry: blob("e"),
                transaction: blob("t"),
                payload: blob("data"),
                sums: Sums::default(),
            }
            .into(),
            SubCommit { writes: vec![Confirmed { pg, peering, version }; 3] }.into(),
            OsdRoom { total: 1 << 40, free: 77 }.into(),
            OsdTenants {
                tenants: vec![TenantNews { tenant: 7, requests: 1, bytes: 2, reserved_ns: 3, waits: true }; 2],
            }
            .into(),
            OsdPing { sent_ns: 5, lease_ns: 16_000_000_000, answers: true, returned: false }.into(),
            PgQuery { pg, map_epoch, peering }.into(),
            PgNotify { pg, map_epoch, peering, born: Epoch(2), info: Some(blob("info")), missing: 7 }.into(),
            PgLogQuery { pg, map_epoch, peering }.into(),
            PgLog { pg, map_epoch, peering, info: blob("info"), entries: vec![blob("a"), blob("b")] }.into(),
            PgActivate { pg, map_epoch, peering, since: Some(version), info: blob("i"), entries: vec![], serves: true }
                .into(),
            PgActivated { pg, map_epoch, peering, last_backfill: blob("l"), missing: vec![(blob("o"), blob("n"))] }
                .into(),
            PgPull {
                pg,
                map_epoch,
                peering,
                round: 3,
                object: blob("o"),
                offset: 4096,
                omap_after: blob("k"),
                reverted_to: version,
                hold: 5,
                urgent: true,
                tenant: 11,
            }
            .into(),
            PgHurry { pg, map_epoch, peering, object: blob("o") }.into(),
            PgPush {
                pg,
                map_epoch,
                peering,
                round: 3,
                object: blob("o"),
                unknown: false,
                has: version,
                exists: true,
                size: 10,
                offset: 4,
                attrs: vec![(blob("a"), blob("1"))],
                omap_header: blob("h"),
                omap: vec![(blob("k"), blob("v"))],
                omap_more: true,
                tenant: 11,
                bytes: blob("bytes"),
            }
            .into(),
            PgRecover { pg, map_epoch, peering, object: blob("o"), need: blob("n"), hold: 5, tenant: 11 }.into(),
            PgRecovered { pg, map_epoch, peering, object: blob("o"), hold: 5, done: true }.into(),
            PgReserve { pg, map_epoch, peering, work: SlotWork::Backfill, priority: 140, wanted: true }.into(),
            PgReserved { pg, map_epoch, peering, work: SlotWork::Scrub, answer: SlotAnswer::Refused }.into(),
            PgScrub { pg, map_epoch, peering, round: 3, from: None, to: Some(blob("t")), deep: true, urgent: false }
                .into(),
            PgScrubbed { pg, map_epoch, peering, round: 3, objects: Some(blob("objects")) }.into(),
            PgScrubEnd { pg, map_epoch, peering, record: blob("r") }.into(),
            PgBackfill {
                pg,
                map_epoch,
                peering,
                from: blob("f"),
                to: None,
                at: version,
                heads: vec![(blob("o"), version)],
            }
            .into(),
            PgBackfilled { pg, map_epoch, peering, to: Some(blob("t")), at: version, missing: vec![] }.into(),
            PgRemove { pg, map_epoch }.into(),
            PgCommittedQuery { pg, map_epoch, peering }.into(),
            PgCommitted { pg, map_epoch, peering, version: Some(version) }.into(),
        ];
        for message in messages {
            let payload = message.clone().into_payload();
            assert_eq!(Message::decode(payload.clone()), Ok(message.clone()));
            for cut in 0..payload.front.len() {
                let short = super::super::Payload { front: payload.front.slice(..cut), ..payload.clone() };
                assert!(Message::decode(short).is_err(), "{} cut at {cut}", message.name());
            }
        }
    }
}
