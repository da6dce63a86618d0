//! The tree as users see it: the order, depth and parents of `ceph osd tree`, `osd df tree` and `osd crush tree`.
//!
//! Follows Ceph v16.2 `src/crush/CrushTreeDumper.h`: roots from the lowest id; below a bucket, child buckets by name,
//! devices by class and number. Refuses to know about OSD states; the monitor adds them to the rows.

use crate::map::CrushMap;
use std::collections::BTreeSet;

/// One line of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeNode {
    /// A device (0 and up) or a bucket.
    pub id: i32,
    /// The bucket it is listed under; none for roots.
    pub parent: Option<i32>,
    /// 0 for roots.
    pub depth: usize,
    /// Its weight (16.16) in its parent; a root's own.
    pub weight: u32,
    /// The children, in Ceph's order of the JSON form: last listed first.
    pub children: Vec<i32>,
}

impl CrushMap {
    /// Every item below every root, depth first. With `shadow`, the device classes' trees too. An item that is linked
    /// into several places is listed in each. `limits::WALK_NODES_MAX` bounds the length.
    pub fn tree(&self, shadow: bool) -> Vec<TreeNode> {
        let roots = if shadow { self.roots() } else { self.nonshadow_roots() };
        self.tree_below(roots)
    }

    /// The same below given items.
    pub fn tree_below(&self, roots: impl IntoIterator<Item = i32>) -> Vec<TreeNode> {
        let mut nodes = Vec::new();
        for root in roots {
            let weight = self.item_weight(root).unwrap_or(0);
            let mut open = vec![TreeNode { id: root, parent: None, depth: 0, weight, children: Vec::new() }];
            while let Some(mut node) = open.pop() {
                for (id, weight) in self.sorted_items(node.id).into_iter().rev() {
                    node.children.push(id);
                    let (parent, depth) = (Some(node.id), node.depth + 1);
                    open.push(TreeNode { id, parent, depth, weight, children: Vec::new() });
                }
                nodes.push(node);
            }
        }
        nodes
    }

    /// The devices below an item, or the item itself if it is one.
    pub fn devices_below(&self, item: i32) -> BTreeSet<i32> {
        let (mut found, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![item]);
        while let Some(at) = open.pop() {
            if at >= 0 {
                found.insert(at);
            } else if seen.insert(at)
                && let Some(bucket) = self.bucket(at)
            {
                open.extend_from_slice(bucket.items());
            }
        }
        found
    }

    /// Devices that have a name but no place: the "stray" ones of `ceph osd tree`.
    pub fn strays(&self) -> Vec<i32> {
        let named = self.item_names.range(0..).map(|(device, _)| *device);
        let placed: BTreeSet<i32> = self.buckets().flat_map(|bucket| bucket.items.clone()).collect();
        named.filter(|device| !placed.contains(device)).collect()
    }

    fn sorted_items(&self, id: i32) -> Vec<(i32, u32)> {
        let mut items: Vec<(i32, u32)> = self.bucket(id).map_or(Vec::new(), |bucket| bucket.weighted_items().collect());
        items.sort_by_cached_key(|(item, _)| self.sort_key(*item));
        // Ceph lists an item that a bucket holds twice once.
        items.dedup_by_key(|(item, _)| *item);
        items
    }

    /// Buckets by name, devices by class, then number. Both begin with the class and an underscore, so that buckets and
    /// devices without a class stand before devices with one.
    fn sort_key(&self, item: i32) -> String {
        if item < 0 {
            format!("_{}", self.item_name(item).unwrap_or_default())
        } else {
            format!("{}_osd.{item:08}", self.item_class(item).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::CrushMap;
    use crate::edit::parse_location;

    #[test]
    fn a_tree_lists_hosts_by_name_and_devices_by_class_and_number() {
        let mut map = CrushMap::simple("host").expect("host is a type");
        for (osd, host) in [(10, "b"), (2, "b"), (3, "a"), (0, "b")] {
            let at = parse_location([format!("host={host}").as_str(), "root=default"]).expect("a location");
            map.insert_item(osd, 0x8000, &format!("osd.{osd}"), &at).expect("a new item");
        }
        map.set_device_class(0, "ssd").expect("a new device has no class");
        let ids = |shadow| map.tree(shadow).iter().map(|node| (node.depth, node.id)).collect::<Vec<_>>();
        let (a, b) = (map.item_id("a").expect("a host"), map.item_id("b").expect("a host"));
        assert_eq!(ids(false), [(0, -1), (1, a), (2, 3), (1, b), (2, 2), (2, 10), (2, 0)]);
        assert_eq!(ids(true).len(), 7 + 4, "default~ssd, its two hosts and its device come with the shadows");
        let root = &map.tree(false)[0];
        assert_eq!((root.weight, &root.children[..]), (4 * 0x8000, &[b, a][..]));
        assert_eq!(map.strays(), []);
    }
}
