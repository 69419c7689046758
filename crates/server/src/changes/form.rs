//! The two forms of a stream of changes: NDJSON, and server-sent events (HTML Standard, section
//! 9.2).

use pellucid_http::{Request, write_decimal};

use crate::entities::names_type;

/// The media type of events.
const EVENTS: &str = "text/event-stream";

/// The form of a stream of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeForm {
    /// NDJSON: one JSON object per line.
    Lines,
    /// Server-sent events. The id is the sequence number, and the data is the same JSON object.
    Events,
}

impl ChangeForm {
    /// The form that the client asks for: events if `Accept` has their media type, otherwise lines.
    pub(super) fn accepted_by(request: &Request<'_>) -> ChangeForm {
        if names_type(request, EVENTS) { ChangeForm::Events } else { ChangeForm::Lines }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            ChangeForm::Lines => "application/x-ndjson",
            ChangeForm::Events => EVENTS,
        }
    }

    /// Begins an item with the event name `name`, and writes the JSON object up to its first
    /// member, the sequence number. The object stays open for further members.
    pub(super) fn begin(self, out: &mut Vec<u8>, name: &str, sequence: u64) {
        if self == ChangeForm::Events {
            out.extend_from_slice(b"id: ");
            write_decimal(out, sequence);
            out.extend_from_slice(b"\nevent: ");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\ndata: ");
        }
        out.extend_from_slice(b"{\"sequence\":");
        write_decimal(out, sequence);
    }

    /// Ends the object and the item.
    pub(super) fn end(self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            ChangeForm::Lines => b"}\n",
            ChangeForm::Events => b"}\n\n",
        });
    }

    /// Appends an item that only has the sequence number: the client has all changes up to it.
    pub(super) fn progress(self, out: &mut Vec<u8>, sequence: u64) {
        self.begin(out, "progress", sequence);
        self.end(out);
    }
}

/// Appends `,"name":number`.
pub(super) fn write_member(out: &mut Vec<u8>, name: &str, number: u64) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write_decimal(out, number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_have_the_same_object() {
        let written = |form: ChangeForm| {
            let mut out = Vec::new();
            form.begin(&mut out, "put", 7);
            write_member(&mut out, "more", 1);
            form.end(&mut out);
            form.progress(&mut out, 8);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(ChangeForm::Lines), "{\"sequence\":7,\"more\":1}\n{\"sequence\":8}\n");
        assert_eq!(
            written(ChangeForm::Events),
            "id: 7\nevent: put\ndata: {\"sequence\":7,\"more\":1}\n\n\
             id: 8\nevent: progress\ndata: {\"sequence\":8}\n\n"
        );
    }
}
