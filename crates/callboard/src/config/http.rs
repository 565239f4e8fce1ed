//! The settings of the HTTP server that need a rule: its addresses, and the issuer whose tokens it accepts.

use std::net::SocketAddr;

use callboard_domain::issuer::{IssuerTerms, WordGrant};
use callboard_runner::IssuerKeys;

use super::settings::Reader;

/// An external issuer of access tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerChoice {
    pub terms: IssuerTerms,
    pub keys: IssuerKeys,
}

impl Reader<'_> {
    /// The address to listen on; `localhost` means 127.0.0.1.
    pub(super) fn listen(&self) -> Result<SocketAddr, String> {
        let text = self.text("http.listen");
        let text = text
            .strip_prefix("localhost:")
            .map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
        let wrong = format!("'{text}' is not an address with a port, like 127.0.0.1:3001");
        text.parse().map_err(|_| self.at("http.listen", &wrong))
    }

    /// A host name for the pages alone; agents use the other names. It must differ from `localhost` and from an IP
    /// address, which agents use.
    pub(super) fn page_host(&self) -> Result<Option<String>, String> {
        let name = "web.host";
        let Some(text) = self.filled(name) else { return Ok(None) };
        let (host, port) = text.split_once(':').unwrap_or((text, "1"));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        let is_name = host.starts_with(|c: char| c.is_ascii_alphanumeric())
            && host.chars().all(is_plain)
            && host.contains(|c: char| c.is_ascii_alphabetic());
        if !is_name || host.eq_ignore_ascii_case("localhost") || port.parse::<u16>().is_err() {
            let wrong = format!("'{text}' is not a host name like callboard.localhost");
            return Err(self.at(name, &wrong));
        }
        Ok(Some(text.to_ascii_lowercase()))
    }

    /// Where clients find this server behind a proxy. Characters that could change the meaning of an address are refused.
    pub(super) fn public_url(&self) -> Result<Option<String>, String> {
        let name = "http.public_url";
        let Some(url) = self.filled(name) else { return Ok(None) };
        let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let clean = |host: &str| {
            let odd = |c: char| c.is_whitespace() || c.is_control() || "\"<>\\?#@".contains(c);
            !host.is_empty() && !host.starts_with('/') && !host.contains(odd)
        };
        if !host.is_some_and(clean) {
            let wrong = format!("'{url}' is not an address like https://board.example");
            return Err(self.at(name, &wrong));
        }
        Ok(Some(url.trim_end_matches('/').to_owned()))
    }

    /// The issuer whose tokens are accepted. Half of its settings is refused: without `http.issuer` the server would be
    /// open although its settings were meant to close it.
    pub(super) fn issuer(&self) -> Result<Option<IssuerChoice>, String> {
        let [keys, audience, grants] =
            ["http.issuer_keys", "http.issuer_audience", "http.issuer_grants"];
        let Some(issuer) = self.filled("http.issuer") else {
            let given = [keys, audience].into_iter().find(|name| self.filled(name).is_some());
            let given = given.or((!self.list(grants).is_empty()).then_some(grants));
            return match given {
                None => Ok(None),
                Some(name) => {
                    let words = "has no effect without http.issuer: set http.issuer to the iss of \
                                 the tokens, or remove this setting";
                    Err(self.at(name, words))
                }
            };
        };
        let needed = |name: &str, what: &str| match self.filled(name) {
            Some(text) => Ok(text.to_owned()),
            None => Err(self.at(name, &format!("is required with http.issuer: write {what}"))),
        };
        let place = needed(keys, "the URL or the absolute path of the issuer's JWKS")?;
        let grant = |text: &String| WordGrant::parse(text).map_err(|words| self.at(grants, &words));
        let terms = IssuerTerms {
            issuer: issuer.to_owned(),
            audience: needed(audience, "the aud of the tokens that are for this server")?,
            actor_claim: needed(
                "http.issuer_actor",
                "the claim that names the actor, such as sub",
            )?,
            grants: self.list(grants).iter().map(grant).collect::<Result<_, _>>()?,
        };
        let keys = IssuerKeys::parse(&place).map_err(|words| self.at(keys, &words))?;
        Ok(Some(IssuerChoice { terms, keys }))
    }
}
