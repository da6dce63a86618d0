//! Watches and notifications: who has to be told when somebody calls an object.
//!
//! Owns the record of an object's watchers (`record`), what an op wants done about watches beside its changes
//! (`effect`), and the watches and notifications that are alive in a PG (`live`). Refuses to know sessions beyond
//! their numbers, the store, and who may watch: `ops::watch` judges, `pg::watching` carries out.
//!
//! Invariant: a watch lives only where its record is durable or about to be; it ends with its record.
//!
//! Follows Ceph v16.2 `src/osd/Watch.cc` and `PrimaryLogPG.cc` (`do_osd_op_effects`). Read next: `live`.

pub mod effect;
pub mod live;
pub mod notification;
pub mod record;

pub use effect::Effect;
pub use live::LiveWatches;
pub use record::{WatchName, WatchRecord, Watchers};
