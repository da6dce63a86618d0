//! `osd tier`: cache tiering, which is outside of what Loligo does; every command says so.

use super::{Answer, Call, CommandSpec, refuse, spec};
use crate::mon::Mon;
use base::Errno;

const fn refused(sig: &'static str) -> CommandSpec {
    spec(sig, "there are no cache tiers", "osd", "rw", no_tiers)
}

pub(super) const COMMANDS: &[CommandSpec] = &[
    refused(
        "osd tier add name=pool,type=CephPoolname name=tierpool,type=CephPoolname \
         name=force_nonempty,type=CephBool,req=false",
    ),
    refused(
        "osd tier add-cache name=pool,type=CephPoolname name=tierpool,type=CephPoolname name=size,type=CephInt,range=0",
    ),
    refused(
        "osd tier cache-mode name=pool,type=CephPoolname \
         name=mode,type=CephChoices,strings=writeback|proxy|readproxy|readonly|none \
         name=yes_i_really_mean_it,type=CephBool,req=false",
    ),
    refused("osd tier set-overlay name=pool,type=CephPoolname name=overlaypool,type=CephPoolname"),
    refused("osd tier remove-overlay name=pool,type=CephPoolname"),
    refused("osd tier remove name=pool,type=CephPoolname name=tierpool,type=CephPoolname"),
];

fn no_tiers(_: &mut Mon, _: &Call) -> Answer {
    refuse(Errno::EOPNOTSUPP, "cache tiering is not supported")
}
