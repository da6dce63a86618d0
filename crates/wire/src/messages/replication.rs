//! What Loligo's OSDs say to each other: replicated writes, peering, copies of objects.
//!
//! The format is ours, not Ceph's: type numbers from 0x4C00, where Ceph has none. Structures that belong to the OSD
//! (log entries, PG records, transactions, object names) travel as blobs that crate `osd` opens.
//!
//! Every message but `OsdRoom` names its placement group, the sender's map epoch (`map_epoch`), by which a receiver tells a message
//! of a past interval and waits for a map that it does not have yet, and the peering it belongs to (`peering`: the
//! primary's map epoch when that began; answers echo it).

use super::body::message;
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use base::{EVersion, Epoch, PgId};
use bytes::Bytes;

message! {
    /// Primary to replica: apply this write.
    SubWrite(0x4C00, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The peering that made the receiver a replica.
        peering: Epoch,
        /// The write's version; each follows the one before it.
        version: EVersion,
        /// Entries up to this one may be forgotten.
        trim_to: EVersion,
        /// The log entry.
        entry: Bytes,
        /// The transaction, its large payloads left out.
        transaction: Bytes,
    }
    + {
        /// The payloads.
        payload
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
    PgNotify(0x4C03, 1, 1) {
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

    /// Primary to replica: become equal to me, then say so.
    PgSync(0x4C06, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// The receiver's newest version, where the sender knows that it is part of its own log; `entries` then are
        /// those after it, else all.
        since: Option<EVersion>,
        /// The sender's record, as the receiver's shall be.
        info: Bytes,
        /// Log entries.
        entries: Vec<Bytes>,
    }

    /// Replica to primary: I am, durably.
    PgSynced(0x4C07, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// From the request.
        peering: Epoch,
    }

    /// To whoever is copied from: give me (a piece of) an object.
    PgPull(0x4C08, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// The object.
        object: Bytes,
        /// From which byte.
        offset: u64,
        /// From after which key of the map; empty from the first.
        omap_after: Bytes,
    }

    /// The answer.
    PgPush(0x4C09, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// From the request.
        peering: Epoch,
        /// The object.
        object: Bytes,
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
    }
    + {
        /// Bytes from `offset`.
        bytes
    }

    /// To whoever is copied from: list your objects and their versions.
    PgScan(0x4C0A, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// The peering.
        peering: Epoch,
        /// Tells one listing from the next.
        round: u32,
        /// The first object; none for the first of all.
        from: Option<Bytes>,
    }

    /// The answer.
    PgScanReply(0x4C0B, 1, 1) {
        /// The placement group.
        pg: PgId,
        /// The sender's map.
        map_epoch: Epoch,
        /// From the request.
        peering: Epoch,
        /// From the request.
        round: u32,
        /// Objects in order, each with its record.
        objects: Vec<(Bytes, Bytes)>,
        /// Where to go on; none at the end.
        next: Option<Bytes>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Message;
    use base::PoolId;

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
                entry: blob("e"),
                transaction: blob("t"),
                payload: blob("data"),
            }
            .into(),
            SubCommit { writes: vec![Confirmed { pg, peering, version }; 3] }.into(),
            OsdRoom { total: 1 << 40, free: 77 }.into(),
            PgQuery { pg, map_epoch, peering }.into(),
            PgNotify { pg, map_epoch, peering, born: Epoch(2), info: Some(blob("info")) }.into(),
            PgLogQuery { pg, map_epoch, peering }.into(),
            PgLog { pg, map_epoch, peering, info: blob("info"), entries: vec![blob("a"), blob("b")] }.into(),
            PgSync { pg, map_epoch, peering, since: Some(version), info: blob("i"), entries: vec![] }.into(),
            PgSynced { pg, map_epoch, peering }.into(),
            PgPull { pg, map_epoch, peering, object: blob("o"), offset: 4096, omap_after: blob("k") }.into(),
            PgPush {
                pg,
                map_epoch,
                peering,
                object: blob("o"),
                exists: true,
                size: 10,
                offset: 4,
                attrs: vec![(blob("a"), blob("1"))],
                omap_header: blob("h"),
                omap: vec![(blob("k"), blob("v"))],
                omap_more: true,
                bytes: blob("bytes"),
            }
            .into(),
            PgScan { pg, map_epoch, peering, round: 3, from: Some(blob("o")) }.into(),
            PgScanReply { pg, map_epoch, peering, round: 3, objects: vec![(blob("o"), blob("r"))], next: None }.into(),
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
