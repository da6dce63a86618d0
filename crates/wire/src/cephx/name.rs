//! The name of an authenticated entity: a kind and a text, `client.admin`, `osd.0`, `mon.`.
//!
//! Follows Ceph v16.2 `src/common/entity_name.h`, where it is `EntityName`; ours is called differently because
//! `types::EntityName` is the kind-and-number that message headers carry. Refuses kinds that hold no keys.

use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::EntityType;
use core::fmt;

/// Whose key it is. Ordered by kind, then text, as Ceph's key database is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthName {
    /// The kind of entity.
    pub kind: EntityType,
    /// What follows the dot; empty for `mon.`.
    pub id: String,
}

impl AuthName {
    /// The name of `kind`.`id`.
    pub fn new(kind: EntityType, id: impl Into<String>) -> AuthName {
        AuthName { kind, id: id.into() }
    }

    /// Reads `client.admin`; nothing where there is no dot, the kind is unknown, or the text has control characters.
    pub fn parse(text: &str) -> Option<AuthName> {
        let (kind, id) = text.split_once('.')?;
        let kind = EntityType::from_name(kind)?;
        if id.chars().any(char::is_control) {
            return None;
        }
        Some(AuthName { kind, id: id.to_owned() })
    }

    /// Whether such an entity verifies authorizers with rotating secrets (`auth_principal_needs_rotating_keys`).
    pub fn needs_rotating_keys(&self) -> bool {
        matches!(self.kind, EntityType::OSD | EntityType::MDS | EntityType::MGR)
    }
}

impl fmt::Display for AuthName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind.name(), self.id)
    }
}

impl fmt::Debug for AuthName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for AuthName {
    fn encode(&self, e: &mut Encoder) {
        e.u32(u32::from(self.kind.0));
        e.string(&self.id);
    }
}

impl Decode for AuthName {
    const MIN_BYTES: usize = 8;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = service_from_wire(d.u32()?).ok_or(Malformed::new("EntityName", "has an unknown type"))?;
        let id = d.string()?;
        if id.chars().any(char::is_control) {
            return Err(Malformed::new("EntityName", "has control characters"));
        }
        Ok(AuthName { kind, id })
    }
}

/// The kind that a u32 on the wire stands for; nothing for more than one bit or an unknown one.
pub(crate) fn service_from_wire(kind: u32) -> Option<EntityType> {
    let kind = EntityType(u8::try_from(kind).ok()?);
    (EntityType::from_name(kind.name()) == Some(kind)).then_some(kind)
}
