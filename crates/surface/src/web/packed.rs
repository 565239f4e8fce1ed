//! Packs pages with gzip. The long pages of a board are mostly markup that repeats, and shrink to a tenth.
//!
//! The length of a packed answer depends on its content: a site that makes a browser ask for a page with a guess in
//! its address could learn from many lengths what stands on the page (BREACH). So an answer is packed only when the
//! browser says that no other site asked, and only the answer to a read: a new token is shown by the answer to its form.
//! Streams of events are no pages and stay plain.

use std::io::Write;

use axum::body::{self, Body};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

/// A shorter answer fits into one or two packets as it is.
const BYTES_MIN: usize = 2 * 1024;
/// Pages are bounded far below this.
/// The bound only keeps a fault from filling the memory.
const BYTES_MAX: usize = 64 * 1024 * 1024;

const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// Packs the answer if it is a page, the reader's browser takes gzip, and no other site asked.
pub(super) async fn pages(request: Request, next: Next) -> Response {
    let may_pack = request.method() == Method::GET
        && is_asked_here(request.headers())
        && takes_gzip(request.headers());
    let response = next.run(request).await;
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if !(may_pack && is_page) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(text) = body::to_bytes(body, BYTES_MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    if text.len() < BYTES_MIN {
        return Response::from_parts(parts, Body::from(text));
    }
    // The length was that of the plain text.
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, GZIP);
    Response::from_parts(parts, Body::from(gzip(&text, Compression::fast())))
}

/// Whether the browser says that the reader, or a page of this board, asked.
fn is_asked_here(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    // `none`: typed or from a bookmark. A client that does not send the header gets plain pages.
    site.is_some_and(|site| site == "same-origin" || site == "none")
}

/// RFC 9110: `gzip;q=0` refuses the coding.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut taken = lists.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(','));
    taken.any(|entry| {
        let (name, rule) = entry.split_once(';').unwrap_or((entry, ""));
        let quality = rule.trim().strip_prefix("q=").and_then(|rule| rule.trim().parse().ok());
        name.trim().eq_ignore_ascii_case("gzip") && quality.is_none_or(|quality: f32| quality > 0.0)
    })
}

/// A text packed in memory.
pub(super) fn gzip(text: &[u8], level: Compression) -> Vec<u8> {
    let mut pack = GzEncoder::new(Vec::new(), level);
    let packed = pack.write_all(text).and_then(|()| pack.finish());
    packed.expect("memory takes every byte")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_says_whether_it_takes_gzip() {
        let table = [
            (&["gzip, deflate, br, zstd"][..], true),
            (&["deflate", "GZIP;q=0.5"], true),
            (&["gzip;q=0, deflate"], false),
            (&["gzip; q=0.0"], false),
            (&["br"], false),
            (&[""], false),
            (&[], false),
        ];
        for (lists, wanted) in table {
            let mut headers = HeaderMap::new();
            for list in lists {
                headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(list));
            }
            assert_eq!(takes_gzip(&headers), wanted, "{lists:?}");
        }
    }
}
