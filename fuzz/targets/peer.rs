//! Messages between peers of a cluster: frames, pages, ranges and operations; and the file with the
//! list of nodes. The first byte chooses which. Lengths and checksums are corrected, so that the
//! decoders behind them are reached.

use pellucid_cluster::{Frame, Page, PartOperation, RangeAsk, StoredNodeList, decode, encode_pong};

const FRAME_BYTES_MAX: usize = 1 << 20;

/// The offset from which the checksum of the list covers its bytes.
const LIST_COVERED_AT: usize = 16;

fn frame(body: &[u8]) {
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
    bytes.extend_from_slice(body);
    let Ok(Some((frame, length))) = decode(&bytes, FRAME_BYTES_MAX) else { return };
    assert_eq!(length, bytes.len());
    let mut again = Vec::new();
    match &frame {
        Frame::Ask(ask) => ask.encode(&mut again),
        Frame::Answer(answer) => answer.encode(&mut again),
        Frame::Pong(id) => encode_pong(*id, &mut again),
    }
    let (second, _) = decode(&again, FRAME_BYTES_MAX).unwrap().unwrap();
    assert_eq!(frame, second);
}

pub(crate) fn fuzz(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 6 {
        0 => frame(rest),
        1 => {
            let _ = decode(rest, FRAME_BYTES_MAX);
        }
        2 => {
            let Ok(mut page) = Page::new(rest.to_vec()) else { return };
            let mut again = Vec::new();
            while let Some(entry) = page.entry() {
                entry.encode(&mut again);
                page.advance();
            }
            assert_eq!(again, rest);
        }
        3 => {
            let Ok(range) = RangeAsk::decode(rest) else { return };
            let mut again = Vec::new();
            range.encode(&mut again);
            assert_eq!(again, rest);
        }
        5 => {
            let Ok(operations) = PartOperation::decode_all(rest) else { return };
            let mut again = Vec::new();
            operations.iter().for_each(|operation| operation.encode(&mut again));
            let second = PartOperation::decode_all(&again).unwrap();
            assert_eq!(format!("{operations:?}"), format!("{second:?}"));
        }
        _ => {
            let mut bytes = rest.to_vec();
            if bytes.len() > LIST_COVERED_AT {
                let checksum = crc32c::crc32c(&bytes[LIST_COVERED_AT..]);
                bytes[12..LIST_COVERED_AT].copy_from_slice(&checksum.to_le_bytes());
            }
            if let Ok(list) = StoredNodeList::decode(&bytes) {
                assert_eq!(StoredNodeList::decode(&list.encode()).as_ref(), Ok(&list));
            }
        }
    }
}
