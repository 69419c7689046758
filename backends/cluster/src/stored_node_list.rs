//! The list of nodes that a node serves, stored in a file beside its store.
//!
//! A node started with another list would not find some of its own keys, and would report keys of
//! other nodes as missing, without any error. So each node stores its list, and refuses to start
//! with another one while its store has keys that could become unreachable. The file has a number
//! for the list (its epoch), so that keys can be moved from one list to the next in the future.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pellucid_topology::{NODES_MAX, NodeList, NodeUrl, URL_BYTES_MAX};

use crate::numbers::{u32_at, u64_at};

const FILE: &str = "cluster.list";
const NEW_FILE: &str = "cluster.list.new";
const MAGIC: &[u8; 8] = b"PELLNODE";
const VERSION: u32 = 1;
/// Offset of the first byte that the checksum covers.
const COVERED_AT: usize = 16;
/// Offset of the first node.
const NODES_AT: usize = 32;
/// Limit of the file in bytes.
const LENGTH_MAX: usize = NODES_AT + NODES_MAX * (2 + URL_BYTES_MAX);

/// The list that a node has served, and the node's own URL in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNodeList {
    /// The number of the list: 1 for a cluster's first.
    pub epoch: u64,
    /// All nodes.
    pub nodes: NodeList,
    /// The URL under which this node has served.
    pub node: NodeUrl,
}

/// The reason why a node cannot start with its list.
#[derive(Debug)]
pub enum NodeListError {
    /// The file cannot be read or written.
    Io(PathBuf, io::Error),
    /// The named field of the file is damaged, or the file has a later version.
    Malformed(PathBuf, &'static str),
    /// Data would become unreachable; the text says which, and what to do.
    Stranding(String),
}

/// Data in a store that could become unreachable, described in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreContents {
    /// The store is empty.
    Nothing,
    /// Keys, each of which belongs to one of the nodes.
    Keys(String),
    /// Data of the document API, which no node of a cluster serves.
    Documents(String),
}

impl fmt::Display for NodeListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeListError::Io(path, error) => {
                write!(f, "the list of nodes in {} cannot be used: {error}", path.display())
            }
            NodeListError::Malformed(path, what) => write!(
                f,
                "the list of nodes in {} has a wrong {what}: it is damaged, or of a later version; \
                 restore it from the copy that was made beside this node's backup",
                path.display()
            ),
            NodeListError::Stranding(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for NodeListError {}

impl StoredNodeList {
    /// Reads the list from the folder; `None` if it has no such file.
    ///
    /// # Errors
    /// If the file cannot be read, or is invalid.
    pub fn read(folder: &Path) -> Result<Option<StoredNodeList>, NodeListError> {
        let path = folder.join(FILE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(NodeListError::Io(path, error)),
        };
        let mut bytes = Vec::new();
        let read = file.take(LENGTH_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| NodeListError::Io(path.clone(), error))?;
        let read = StoredNodeList::decode(&bytes);
        Ok(Some(read.map_err(|what| NodeListError::Malformed(path, what))?))
    }

    /// Writes the list to the folder. When this returns, the file survives a crash of the machine.
    ///
    /// # Errors
    /// If the file cannot be written and synced.
    pub fn write(&self, folder: &Path) -> Result<(), NodeListError> {
        let (path, new) = (folder.join(FILE), folder.join(NEW_FILE));
        let write = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&new)?;
            file.write_all(&self.encode())?;
            file.sync_all()?;
            std::fs::rename(&new, &path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|error| NodeListError::Io(path, error))
    }

    /// Removes the list from the folder. When this returns, a crash of the machine does not bring
    /// it back.
    ///
    /// # Errors
    /// If the file cannot be removed, or the folder cannot be synced.
    pub fn remove(folder: &Path) -> Result<(), NodeListError> {
        let path = folder.join(FILE);
        let remove = || {
            std::fs::remove_file(&path)?;
            File::open(folder)?.sync_all()
        };
        remove().map_err(|error| NodeListError::Io(path, error))
    }

    /// Encodes the list as the file's bytes (docs/format.md).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let own = self.nodes.index_of(&self.node).expect("a node is on its own list");
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&(self.nodes.nodes().len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(own as u32).to_le_bytes());
        for node in self.nodes.nodes() {
            bytes.extend_from_slice(&(node.as_str().len() as u16).to_le_bytes());
            bytes.extend_from_slice(node.as_str().as_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[COVERED_AT..]);
        bytes[12..COVERED_AT].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the file's bytes.
    ///
    /// # Errors
    /// The name of the field that is invalid.
    pub fn decode(bytes: &[u8]) -> Result<StoredNodeList, &'static str> {
        if bytes.len() < NODES_AT || bytes.len() > LENGTH_MAX {
            return Err("length");
        }
        if &bytes[..8] != MAGIC {
            return Err("beginning");
        }
        if u32_at(bytes, 8) != VERSION {
            return Err("version");
        }
        if crc32c::crc32c(&bytes[COVERED_AT..]) != u32_at(bytes, 12) {
            return Err("checksum");
        }
        let epoch = u64_at(bytes, 16);
        let mut rest = &bytes[NODES_AT..];
        let mut nodes = Vec::new();
        for _ in 0..u32_at(bytes, 24).min(NODES_MAX as u32 + 1) {
            let (length, behind) = rest.split_first_chunk::<2>().ok_or("length")?;
            let length = usize::from(u16::from_le_bytes(*length));
            let (url, behind) = behind.split_at_checked(length).ok_or("length")?;
            let url = std::str::from_utf8(url).map_err(|_| "node")?;
            nodes.push(NodeUrl::parse(url).map_err(|_| "node")?);
            rest = behind;
        }
        let own = nodes.get(u32_at(bytes, 28) as usize).cloned().ok_or("node")?;
        let nodes = NodeList::new(nodes).map_err(|_| "list")?;
        if rest.is_empty() { Ok(StoredNodeList { epoch, nodes, node: own }) } else { Err("length") }
    }

    /// Decides if a node may start with the list `given`, or without one, when its folder has the
    /// list `before`. `held` looks up the data of its store, and is called only if the list has
    /// changed. Returns the list that the folder has to have, if any, before the node serves.
    ///
    /// # Errors
    /// If data would become unreachable; the text says what to do instead. Or the error of `held`.
    pub fn judge<E: From<NodeListError>>(
        before: Option<&StoredNodeList>,
        given: Option<(&NodeList, &NodeUrl)>,
        held: impl FnOnce() -> Result<StoreContents, E>,
    ) -> Result<Option<StoredNodeList>, E> {
        let new = given.map(|(nodes, node)| StoredNodeList {
            epoch: before.map_or(1, |before| before.epoch),
            nodes: nodes.clone(),
            node: node.clone(),
        });
        if before == new.as_ref() {
            return Ok(new);
        }
        match stranding(before, new.as_ref(), held()?) {
            Some(what) => Err(NodeListError::Stranding(what).into()),
            None => Ok(new),
        }
    }
}

/// The error text if a node that has served as `before` would lose access to `held` as `new`;
/// `None` if it would not.
fn stranding(
    before: Option<&StoredNodeList>,
    new: Option<&StoredNodeList>,
    held: StoreContents,
) -> Option<String> {
    let (what, is_documents) = match held {
        StoreContents::Nothing => return None,
        StoreContents::Keys(what) => (what, false),
        StoreContents::Documents(what) => (what, true),
    };
    Some(match (before, new) {
        (Some(before), Some(new)) => format!(
            "this node has served as {} of the list {}, and its store has {what}: started as {} of \
             {}, it would not find all that it has. Start it with the list that it served, or with \
             an empty folder",
            before.node,
            before.nodes.text(),
            new.node,
            new.nodes.text()
        ),
        (Some(before), None) => format!(
            "this node has served as {} of the list {}, and its store has {what}: alone, it would \
             take what other nodes have for missing. Start it with --cluster {} --advertise {}",
            before.node,
            before.nodes.text(),
            before.nodes.text(),
            before.node
        ),
        (None, _) if is_documents => format!(
            "this store has {what} from before it was part of a cluster, and documents are not \
             there on a cluster: start it without --cluster, or start the node with an empty folder"
        ),
        // A single node owns all keys.
        (None, Some(new)) if new.nodes.nodes().len() == 1 => return None,
        (None, _) => format!(
            "this store has {what}, but no {FILE}: if it was restored from a backup of this node, \
             copy {FILE} from the node's old folder into this one. If it has never been part of a \
             cluster, most of it would belong to other nodes: start the node with an empty folder, \
             and put the entries through the cluster"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remembered(nodes: &str, node: &str) -> StoredNodeList {
        let nodes = NodeList::parse(nodes).unwrap();
        StoredNodeList { epoch: 1, nodes, node: NodeUrl::parse(node).unwrap() }
    }

    fn judge(
        before: Option<&StoredNodeList>,
        new: Option<&StoredNodeList>,
        empty: bool,
    ) -> Result<Option<StoredNodeList>, String> {
        let given = new.map(|new| (&new.nodes, &new.node));
        let held =
            if empty { StoreContents::Nothing } else { StoreContents::Keys("keys".to_owned()) };
        let judged = StoredNodeList::judge(before, given, || Ok::<_, NodeListError>(held));
        judged.map_err(|error| error.to_string())
    }

    #[test]
    fn the_encoding_has_not_changed() {
        let bytes = remembered("http://a:1,http://b:2", "http://b:2").encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "50454c4c4e4f4445010000007db93e850100000000000000020000000100000\
             00a00687474703a2f2f613a310a00687474703a2f2f623a32"
        );
        let read = StoredNodeList::decode(&bytes).unwrap();
        assert_eq!(read, remembered("http://a:1,http://b:2", "http://b:2"));
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_noticed() {
        let bytes = remembered("http://a:1,http://b:2", "http://b:2").encode();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(StoredNodeList::decode(&changed).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(StoredNodeList::decode(&bytes[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn a_written_list_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(StoredNodeList::read(folder.path()).unwrap(), None);
        let first = remembered("http://a:1,http://b:2", "http://b:2");
        first.write(folder.path()).unwrap();
        assert_eq!(StoredNodeList::read(folder.path()).unwrap().as_ref(), Some(&first));
        let second = remembered("http://a:1", "http://a:1");
        second.write(folder.path()).unwrap();
        assert_eq!(StoredNodeList::read(folder.path()).unwrap().as_ref(), Some(&second));
        std::fs::write(folder.path().join(FILE), b"PELLNODE").unwrap();
        let error = StoredNodeList::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(FILE) && error.contains("length"), "{error}");
        StoredNodeList::remove(folder.path()).unwrap();
        assert_eq!(StoredNodeList::read(folder.path()).unwrap(), None);
    }

    #[test]
    fn a_list_that_would_strand_keys_is_refused() {
        let two = remembered("http://a:1,http://b:2", "http://b:2");
        let three = remembered("http://a:1,http://b:2,http://c:3", "http://b:2");
        let other = remembered("http://a:1,http://b:2", "http://a:1");
        assert_eq!(judge(Some(&two), Some(&two), false), Ok(Some(two.clone())));
        for new in [Some(&three), Some(&other), None] {
            let error = judge(Some(&two), new, false).unwrap_err();
            assert!(error.contains("http://a:1,http://b:2"), "{error}");
            assert_eq!(judge(Some(&two), new, true), Ok(new.cloned()));
        }
        let error = judge(None, Some(&two), false).unwrap_err();
        assert!(error.contains("copy cluster.list") && error.contains("empty folder"), "{error}");
        assert_eq!(judge(None, Some(&two), true), Ok(Some(two)));
        assert_eq!(judge(None, None, false), Ok(None));
        let alone = remembered("http://a:1", "http://a:1");
        assert_eq!(judge(None, Some(&alone), false), Ok(Some(alone)));
    }

    /// Regression: such a store was accepted, and its documents were answered with 501 from then
    /// on.
    #[test]
    fn documents_from_before_a_cluster_are_refused_even_by_one_node_alone() {
        let (alone, two) = ("http://a:1", "http://a:1,http://b:2");
        for list in [alone, two] {
            let new = remembered(list, "http://a:1");
            let held = || Ok(StoreContents::Documents("the collection `c`".to_owned()));
            let judged = StoredNodeList::judge(None, Some((&new.nodes, &new.node)), held);
            let Err(NodeListError::Stranding(what)) = judged else { panic!("{judged:?}") };
            assert!(what.contains("the collection `c`") && what.contains("--cluster"), "{what}");
        }
    }
}
