//! The tokens of the language, and their names in error messages.

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A reserved word.
    Keyword(Keyword),
    /// A name, and true if it was quoted in backticks or accents.
    Name(String, bool),
    /// A string in quotes.
    String(String),
    /// A whole number.
    Integer(u64),
    /// Any other number, infinite if it is out of range.
    Double(f64),
    /// `@name`.
    Bind(String),
    /// `@@name`, without the first sign.
    CollectionBind(String),
    /// Signs.
    Sign(Sign),
    /// The end of the text.
    End,
}

macro_rules! keywords {
    ($($name:ident $text:literal $description:literal,)*) => {
        /// A reserved word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Keyword { $(#[doc = $text] $name,)* }

        impl Keyword {
            /// The keyword that `word` is, in lower or upper case.
            pub(crate) fn of(word: &str) -> Option<Self> {
                $(if word.eq_ignore_ascii_case($text) { return Some(Self::$name); })*
                None
            }

            fn description(self) -> &'static str {
                match self { $(Self::$name => $description,)* }
            }
        }
    };
}

keywords! {
    Aggregate "AGGREGATE" "AGGREGATE keyword",
    All "ALL" "all modifier",
    AllShortestPaths "ALL_SHORTEST_PATHS" "ALL_SHORTEST_PATHS keyword",
    And "AND" "and operator",
    Any "ANY" "any modifier",
    Asc "ASC" "ASC keyword",
    Collect "COLLECT" "COLLECT declaration",
    Desc "DESC" "DESC keyword",
    Distinct "DISTINCT" "DISTINCT modifier",
    False "FALSE" "false",
    Filter "FILTER" "FILTER declaration",
    For "FOR" "FOR declaration",
    Graph "GRAPH" "GRAPH keyword",
    In "IN" "IN keyword",
    Inbound "INBOUND" "inbound modifier",
    Insert "INSERT" "INSERT command",
    Into "INTO" "INTO keyword",
    KPaths "K_PATHS" "K_PATHS keyword",
    KShortestPaths "K_SHORTEST_PATHS" "K_SHORTEST_PATHS keyword",
    Let "LET" "LET declaration",
    Like "LIKE" "like operator",
    Limit "LIMIT" "LIMIT declaration",
    None "NONE" "none modifier",
    Not "NOT" "not operator",
    Null "NULL" "null",
    Or "OR" "or operator",
    Outbound "OUTBOUND" "outbound modifier",
    Remove "REMOVE" "REMOVE command",
    Replace "REPLACE" "REPLACE command",
    Return "RETURN" "RETURN declaration",
    ShortestPath "SHORTEST_PATH" "SHORTEST_PATH keyword",
    Sort "SORT" "SORT declaration",
    True "TRUE" "true",
    Update "UPDATE" "UPDATE command",
    Upsert "UPSERT" "UPSERT command",
    Window "WINDOW" "WINDOW declaration",
    With "WITH" "WITH keyword",
}

macro_rules! signs {
    ($($name:ident $text:literal $description:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Sign { $(#[doc = $text] $name,)* }

        impl Sign {
            /// The longest sign at the front of `text`.
            pub(crate) fn at(text: &str) -> Option<(Self, usize)> {
                $(if text.starts_with($text) { return Some((Self::$name, $text.len())); })*
                None
            }

            fn description(self) -> &'static str {
                match self { $(Self::$name => $description,)* }
            }
        }
    };
}

// Longer ones first.
signs! {
    Range ".." "..",
    Equal "==" "== operator",
    NotEqual "!=" "!= operator",
    NotRegex "!~" "!~ operator",
    Regex "=~" "=~ operator",
    LessEqual "<=" "<= operator",
    GreaterEqual ">=" ">= operator",
    And "&&" "and operator",
    Or "||" "or operator",
    Scope "::" "::",
    Assign "=" "assignment",
    Less "<" "< operator",
    Greater ">" "> operator",
    Not "!" "not operator",
    Plus "+" "+ operator",
    Minus "-" "- operator",
    Times "*" "* operator",
    Divide "/" "/ operator",
    Modulo "%" "% operator",
    Question "?" "?",
    Colon ":" ":",
    Comma "," ",",
    Dot "." ".",
    Open "(" "(",
    Close ")" ")",
    OpenBrace "{" "{",
    CloseBrace "}" "}",
    OpenBracket "[" "[",
    CloseBracket "]" "]",
}

impl Token {
    /// Its name in error messages.
    pub(crate) fn description(&self) -> &'static str {
        match self {
            Self::Keyword(keyword) => keyword.description(),
            Self::Name(..) => "identifier",
            Self::String(_) => "quoted string",
            Self::Integer(_) => "integer number",
            Self::Double(_) => "number",
            Self::Bind(_) => "bind parameter",
            Self::CollectionBind(_) => "bind data source parameter",
            Self::Sign(sign) => sign.description(),
            Self::End => "end of query string",
        }
    }
}
