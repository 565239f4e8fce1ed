//! Pages behind an offset. Rows before the page are skipped in an index and never read; parts that an index has in order
//! are merged.

/// The statement for the first columns of rows, in the order of these columns. Each part selects them from one range of
/// an index; `order` names them.
pub(crate) fn merged(
    parts: &[String],
    order: [&str; 3],
    way: SkipOrder,
    place: PagePlace<'_>,
) -> String {
    let way = way.word();
    let named = order.map(|column| format!("{column} {way}")).join(", ");
    let PagePlace { limit, skip, is_postgres } = place;
    let cut = format!("LIMIT CAST({limit} AS bigint) OFFSET CAST({skip} AS bigint)");
    let by_place = format!("1 {way}, 2 {way}, 3 {way}");
    match (parts, is_postgres) {
        ([only], _) => format!("{only} ORDER BY {named} {cut}"),
        (_, false) => format!("{} ORDER BY {by_place} {cut}", parts.join(" UNION ALL ")),
        // PostgreSQL would read and sort all rows of parts without an order of their own.
        (_, true) => {
            let most = format!("LIMIT CAST({limit} AS bigint) + CAST({skip} AS bigint)");
            let parts = parts.iter().map(|part| format!("({part} ORDER BY {named} {most})"));
            let parts = parts.collect::<Vec<_>>().join(" UNION ALL ");
            format!("{parts} ORDER BY {by_place} {cut}")
        }
    }
}

/// The direction of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkipOrder {
    Forwards,
    /// From the end: the rows behind the page are skipped.
    Backwards,
}

impl SkipOrder {
    fn word(self) -> &'static str {
        match self {
            SkipOrder::Forwards => "ASC",
            SkipOrder::Backwards => "DESC",
        }
    }
}

/// The placeholders of the limit and of the number of rows to skip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagePlace<'a> {
    pub limit: &'a str,
    pub skip: &'a str,
    pub is_postgres: bool,
}

/// The statement for the values of a column, each once: every value is found by one look-up behind the value before it, so
/// the number of rows with it does not matter. `rows` has the tables and the conditions that an index begins with.
pub(crate) fn each_once(column: &str, rows: &str) -> String {
    let next = |beyond: &str| {
        format!(
            "SELECT {column} {rows} AND {column} IS NOT NULL {beyond} ORDER BY {column} LIMIT 1"
        )
    };
    format!(
        "WITH RECURSIVE known (value) AS (SELECT ({}) UNION ALL \
             SELECT ({}) FROM known k WHERE k.value IS NOT NULL) \
         SELECT value FROM known WHERE value IS NOT NULL",
        next(""),
        next(&format!("AND {column} > k.value"))
    )
}
