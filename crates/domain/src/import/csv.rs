//! Comma-separated values as RFC 4180 has them: quoted fields may hold commas, line ends and doubled quotes.

/// A record with the line that it starts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CsvRecord {
    pub line: usize,
    pub fields: Vec<String>,
}

/// The records of a text; `Err` with the line of a quote that is not closed.
pub(super) fn records(text: &str) -> Result<Vec<CsvRecord>, usize> {
    let (mut records, mut fields, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut start, mut quoted_at) = (1, 1, None);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted_at) {
            ('"', Some(_)) if chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            ('"', Some(_)) => quoted_at = None,
            ('"', None) if field.is_empty() => quoted_at = Some(line),
            (',', None) => fields.push(std::mem::take(&mut field)),
            ('\r', None) if chars.peek() == Some(&'\n') => {}
            ('\n', None) => {
                fields.push(std::mem::take(&mut field));
                records.push(CsvRecord { line: start, fields: std::mem::take(&mut fields) });
                start = line + 1;
            }
            (c, _) => field.push(c),
        }
        line += usize::from(c == '\n');
    }
    if let Some(line) = quoted_at {
        return Err(line);
    }
    if !field.is_empty() || !fields.is_empty() {
        fields.push(field);
        records.push(CsvRecord { line: start, fields });
    }
    // A line without a field is no record.
    records.retain(|record| record.fields != [""]);
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::records;

    #[test]
    fn records_are_read() {
        let rows = [
            ("", vec![]),
            ("a,b\n", vec![(1, "a|b")]),
            ("a,b\r\n\r\nc,", vec![(1, "a|b"), (3, "c|")]),
            ("\"a,\"\"b\"\"\nc\",d\ne,f", vec![(1, "a,\"b\"\nc|d"), (3, "e|f")]),
            ("a \"b\",c", vec![(1, "a \"b\"|c")]),
        ];
        for (text, wanted) in rows {
            let found = records(text).expect("records");
            let found: Vec<_> =
                found.iter().map(|record| (record.line, record.fields.join("|"))).collect();
            let wanted: Vec<_> =
                wanted.into_iter().map(|(line, fields)| (line, fields.to_owned())).collect();
            assert_eq!(found, wanted, "{text:?}");
        }
        assert_eq!(records("a\n\"b\n"), Err(2));
    }
}
