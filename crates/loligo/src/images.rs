//! RBD images by the names that people know. The cluster knows them as tenants by their ids, which an image keeps when it is
//! renamed.
//!
//! Which id a name means says the object `rbd_id.NAME`, and which name an id has the map of `rbd_directory` (Ceph v16.2
//! `src/librbd/ImageCtx.cc`, `src/cls/rbd/cls_rbd.cc`); an image's header says in which pool its data lies, if that is not
//! its own (`data_pool_id`, the same file). Images in the trash have no name.

use crate::reach::Reach;
use anyhow::{Context, bail};
use base::{Errno, PoolId};
use rt::errand::{Found, Question};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::{Decode, Decoder};

/// A tenant that may be promised something.
pub(crate) struct Existing {
    /// Its name, with an image's id.
    pub(crate) tenant: String,
    /// Of an image: the name of the pool that its data lies in.
    pub(crate) data_pool: Option<String>,
}

/// Images of a cluster.
pub(crate) struct Images<'a> {
    reach: &'a Reach,
    pools: BTreeMap<String, PoolId>,
}

/// An image as a tenant: `image:POOL/[NAMESPACE/]IMAGE`, where IMAGE is a name or an id.
struct Place<'a> {
    pool: PoolId,
    /// Everything before the image.
    prefix: &'a str,
    nspace: &'a str,
    image: &'a str,
}

impl Place<'_> {
    fn question(&self, object: String) -> Question {
        Question::Data { pool: self.pool, nspace: self.nspace.to_owned(), object }
    }

    fn value(&self, object: String, key: String) -> Question {
        Question::Value { pool: self.pool, nspace: self.nspace.to_owned(), object, key }
    }
}

impl<'a> Images<'a> {
    /// Those of the cluster that is reached.
    pub(crate) fn new(reach: &'a Reach) -> anyhow::Result<Images<'a>> {
        let pools = reach.ask(&json!({ "prefix": "osd lspools", "format": "json" }))?;
        let pools: Value = serde_json::from_slice(&pools).context("the monitor's list of pools")?;
        let pool = |pool: &Value| Some((pool["poolname"].as_str()?.to_owned(), PoolId(pool["poolnum"].as_i64()?)));
        let pools = pools.as_array().into_iter().flatten().filter_map(pool).collect();
        Ok(Images { reach, pools })
    }

    /// None for what is no image, or in no pool: whoever it is told to says so.
    fn place<'t>(&self, tenant: &'t str) -> Option<Place<'t>> {
        let rest = tenant.strip_prefix("image:")?;
        let (pool, inside) = rest.split_once('/')?;
        let (nspace, image) = inside.split_once('/').unwrap_or(("", inside));
        let prefix = &tenant[..tenant.len() - image.len()];
        Some(Place { pool: *self.pools.get(pool)?, prefix, nspace, image })
    }

    /// A tenant with its image by id. What is the name of no image stays as it is: it may be an id.
    pub(crate) fn by_id(&self, tenant: &str) -> anyhow::Result<String> {
        let Some(place) = self.place(tenant) else { return Ok(tenant.to_owned()) };
        match &self.reach.find_out(&[place.question(format!("rbd_id.{}", place.image))])?[..] {
            [Ok(data)] => {
                let id = text(data).with_context(|| format!("{tenant}: its object rbd_id says no id"))?;
                Ok(format!("{}{id}", place.prefix))
            }
            [Err(Errno::ENOENT)] => Ok(tenant.to_owned()),
            [Err(errno)] => bail!("{tenant}: {errno}"),
            _ => unreachable!("an answer to each question"),
        }
    }

    /// The same for an image that has to be there, with where its data lies.
    pub(crate) fn existing(&self, tenant: &str) -> anyhow::Result<Existing> {
        let id = self.by_id(tenant)?;
        let Some(place) = self.place(&id) else { return Ok(Existing { tenant: id, data_pool: None }) };
        let header = format!("rbd_header.{}", place.image);
        let data_pool = place.value(header.clone(), "data_pool_id".to_owned());
        match &self.reach.find_out(&[place.question(header), data_pool])?[..] {
            [Err(Errno::ENOENT), _] => bail!("{tenant}: there is no image of that name or id"),
            [Err(errno), _] | [_, Err(errno)] if *errno != Errno::ENOENT => bail!("{tenant}: {errno}"),
            [_, data_pool] => {
                let pool = data_pool.as_ref().ok().and_then(|id| i64::decode(&mut Decoder::new(id)).ok()).map(PoolId);
                let pool = pool.unwrap_or(place.pool);
                let name = self.pools.iter().find(|(_, id)| **id == pool).map(|(name, _)| name.clone());
                let name =
                    name.with_context(|| format!("{tenant}: its data lies in pool {}, which is no more", pool.0))?;
                Ok(Existing { tenant: id, data_pool: Some(name) })
            }
            _ => unreachable!("an answer to each question"),
        }
    }

    /// The names of those of these tenants that are images with one.
    pub(crate) fn names<'t>(
        &self,
        tenants: impl IntoIterator<Item = &'t str>,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let places: Vec<(&str, Place<'_>)> =
            tenants.into_iter().filter_map(|tenant| Some((tenant, self.place(tenant)?))).collect();
        let question = |place: &Place<'_>| place.value("rbd_directory".to_owned(), format!("id_{}", place.image));
        let questions: Vec<Question> = places.iter().map(|(_, place)| question(place)).collect();
        let found = self.reach.find_out(&questions)?;
        // An image without a name, or whose group does not answer, is shown by its id.
        let name = |found: Found| text(&found.ok()?);
        let named =
            places.into_iter().zip(found).filter_map(|((tenant, _), found)| Some((tenant.to_owned(), name(found)?)));
        Ok(named.collect())
    }
}

/// A string as Ceph writes it.
fn text(bytes: &[u8]) -> Option<String> {
    String::decode(&mut Decoder::new(bytes)).ok()
}
