//! Conversions between the types of the engine and those of the store interface.

use pellucid_engine::{Error, parts};
use pellucid_store::{
    Acknowledgement, Change, Condition, Head, KEY_LENGTH_MAX, Object, ReadMode, StoreError, Value,
};

const _: () = assert!(KEY_LENGTH_MAX == pellucid_engine::KEY_LENGTH_MAX);
const _: () = assert!(parts::STALL.slot() == pellucid_store::STALL.slot());

pub(crate) fn acknowledgement(of: Acknowledgement) -> pellucid_engine::Acknowledgement {
    match of {
        Acknowledgement::Memory => pellucid_engine::Acknowledgement::Memory,
        Acknowledgement::Os => pellucid_engine::Acknowledgement::Os,
        Acknowledgement::Disk => pellucid_engine::Acknowledgement::Disk,
    }
}

pub(crate) fn condition(of: Condition) -> pellucid_engine::Condition {
    match of {
        Condition::None => pellucid_engine::Condition::None,
        Condition::Absent => pellucid_engine::Condition::Absent,
        Condition::Present => pellucid_engine::Condition::Present,
        Condition::Sequence(sequence) => pellucid_engine::Condition::Sequence(sequence),
    }
}

pub(crate) fn engine_mode(of: ReadMode) -> pellucid_engine::ReadMode {
    match of {
        ReadMode::MayBlock => pellucid_engine::ReadMode::MayBlock,
        ReadMode::InMemory => pellucid_engine::ReadMode::InMemory,
        ReadMode::Brief => pellucid_engine::ReadMode::Brief,
    }
}

pub(crate) fn mode(of: pellucid_engine::ReadMode) -> ReadMode {
    match of {
        pellucid_engine::ReadMode::MayBlock => ReadMode::MayBlock,
        pellucid_engine::ReadMode::InMemory => ReadMode::InMemory,
        pellucid_engine::ReadMode::Brief => ReadMode::Brief,
    }
}

pub(crate) fn object(of: pellucid_engine::Object) -> Object {
    Object { head: head(&of.head), value: Value::Mapped(of.value) }
}

pub(crate) fn head(of: &pellucid_engine::Head) -> Head {
    Head {
        sequence: of.sequence,
        written_at_ms: of.written_at_ms,
        value_length: u64::from(of.value_length),
    }
}

pub(crate) fn change(of: pellucid_engine::Change) -> Change {
    let pellucid_engine::Change { sequence, written_at_ms, key, object } = of;
    let expires_at_ms = object.as_ref().map_or(0, |object| object.head.expires_at_ms);
    Change {
        sequence,
        written_at_ms,
        expires_at_ms: (expires_at_ms > 0).then_some(expires_at_ms),
        key,
        value: object.map(|object| Value::Mapped(object.value)),
    }
}

/// The error of a store for an error of the engine.
pub(crate) fn failure(error: Error) -> StoreError {
    let text = error.to_string();
    match error {
        Error::ConditionFailed { index, current } => StoreError::ConditionFailed { index, current },
        Error::KeyLength { .. }
        | Error::HeadLength { .. }
        | Error::ValueLength { .. }
        | Error::BatchSize { .. }
        | Error::BatchMemory { .. }
        | Error::Option { .. }
        | Error::TableUnknown { .. }
        | Error::TableDiffers { .. }
        | Error::ExtractorMissing { .. }
        | Error::HeadGiven { .. }
        | Error::HeadRefused { .. }
        | Error::ValueRefused { .. }
        | Error::IndexUnknown { .. }
        | Error::IndexLate { .. }
        | Error::IndexedDelete { .. }
        | Error::TermLength { .. }
        | Error::TablesExhausted => StoreError::Unacceptable(text),
        Error::DiskFull { .. } => StoreError::Full(text),
        Error::Exhausted { .. } | Error::MergeOvertaken { .. } => StoreError::Busy(text),
        Error::Corruption { .. } => StoreError::Corruption(text),
        Error::Poisoned { .. } | Error::Closed => StoreError::ReadOnly(text),
        Error::NotInMemory => StoreError::NotInMemory,
        Error::ChangesLost { oldest, newest, .. } => StoreError::ChangesLost { oldest, newest },
        Error::Stopped
        | Error::Io { .. }
        | Error::Version { .. }
        | Error::Foreign { .. }
        | Error::ManifestMissing { .. }
        | Error::Incomplete { .. }
        | Error::Occupied { .. }
        | Error::Locked { .. } => StoreError::Failed(text),
    }
}
