//! Markup that is balanced and escaped by construction.

/// An attribute: its name and its value, which is escaped when it is written.
pub(crate) type Attribute<'text> = (&'text str, &'text str);

/// A document that is being written. Elements are closed and text and attributes are escaped
/// automatically.
#[derive(Debug, Default)]
pub(crate) struct Markup {
    written: String,
}

impl Markup {
    /// Writes an element with content.
    pub(crate) fn element(
        &mut self,
        tag: &str,
        attributes: &[Attribute<'_>],
        content: impl FnOnce(&mut Markup),
    ) {
        self.open(tag, attributes);
        self.written.push('>');
        content(self);
        self.written.push_str("</");
        self.written.push_str(tag);
        self.written.push('>');
    }

    /// Writes an element that has only text.
    pub(crate) fn leaf(&mut self, tag: &str, attributes: &[Attribute<'_>], text: &str) {
        self.element(tag, attributes, |inside| inside.text(text));
    }

    /// Writes an element without content.
    pub(crate) fn empty(&mut self, tag: &str, attributes: &[Attribute<'_>]) {
        self.open(tag, attributes);
        self.written.push_str("/>");
    }

    /// Writes text, escaped.
    pub(crate) fn text(&mut self, text: &str) {
        escape_into(&mut self.written, text);
    }

    /// Writes style or script of this crate without escaping.
    pub(crate) fn verbatim(&mut self, text: &'static str) {
        self.written.push_str(text);
    }

    /// Writes JSON as the content of a script element that holds data. There, only the begin of a
    /// tag is special, and JSON has another form for it.
    pub(crate) fn data(&mut self, json: &str) {
        self.written.push_str(&json.replace('<', "\\u003c"));
    }

    /// Returns the document.
    pub(crate) fn finish(self) -> String {
        self.written
    }

    fn open(&mut self, tag: &str, attributes: &[Attribute<'_>]) {
        self.written.push('<');
        self.written.push_str(tag);
        for (name, value) in attributes {
            self.written.push(' ');
            self.written.push_str(name);
            self.written.push_str("=\"");
            escape_into(&mut self.written, value);
            self.written.push('"');
        }
    }
}

fn escape_into(written: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&quot;"),
            '\'' => written.push_str("&#39;"),
            // Control characters are not allowed in a document, not even as references.
            control if control.is_control() && !matches!(control, '\n' | '\t') => {
                written.push(char::REPLACEMENT_CHARACTER);
            }
            plain => written.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_close_and_text_is_escaped() {
        let mut markup = Markup::default();
        markup.element("p", &[("title", "\"quoted\" & 'so'")], |p| {
            p.text("1 < 2 & 3 > 2\u{0}\u{1b}[0m\n");
            p.empty("br", &[]);
            p.leaf("b", &[], "</b>");
        });
        assert_eq!(
            markup.finish(),
            "<p title=\"&quot;quoted&quot; &amp; &#39;so&#39;\">1 &lt; 2 &amp; 3 &gt; \
             2\u{fffd}\u{fffd}[0m\n<br/><b>&lt;/b&gt;</b></p>"
        );
    }
}
