//! Access tokens of an external issuer (JWT, RFC 9068): whom the claims of a token name, what they allow, and why a token
//! is refused. The signature was verified before; nothing here sees the text of a token or a key.

use serde_json::Value;

use crate::actor::{Actor, ActorKind};
use crate::rights::{Lane, Profile, Rights, Scope};
use crate::time::Timestamp;

/// How far the clock of an issuer may be ahead of this one.
const CLOCK_SKEW_S: u32 = 60;
/// The claims whose words are looked up in the grants.
const GRANT_CLAIMS: [&str; 3] = ["scope", "scp", "roles"];

/// The terms on which tokens of one issuer are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerTerms {
    /// The value of `iss`, exactly.
    pub issuer: String,
    /// One of the values of `aud`.
    pub audience: String,
    /// The claim that names the actor.
    pub actor_claim: String,
    pub grants: Vec<WordGrant>,
}

/// A word of a token and the right that it gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordGrant {
    pub word: String,
    pub gives: Grant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    Scope(Scope),
    Profile(Profile),
}

/// The meaning of an accepted token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    pub actor: Actor,
    pub rights: Rights,
    pub expires_at: Timestamp,
}

/// Why a token of the issuer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssuerFault {
    Malformed,
    TooLong,
    Algorithm,
    UnknownKey,
    Signature,
    /// The keys of the issuer cannot be fetched, so no token can be judged.
    Unreachable,
    OtherIssuer,
    Audience,
    NoExpiry,
    Expired,
    NotYet,
    Actor,
    NoGrant,
}

impl IssuerFault {
    /// The reason for the caller. Plain ASCII without quotes: the words also stand in a quoted header value.
    pub fn words(self) -> &'static str {
        match self {
            Self::Malformed => "the token is not a well-formed JWT",
            Self::TooLong => "the token is longer than 8 KiB",
            Self::Algorithm => "the algorithm of the token is not accepted for its key",
            Self::UnknownKey => "the token was not signed with a known key of the issuer",
            Self::Signature => "the signature of the token is wrong",
            Self::Unreachable => {
                "the keys of the token issuer cannot be fetched, so the token cannot be judged; try again later"
            }
            Self::OtherIssuer => "the token is of another issuer",
            Self::Audience => "the token is for another audience",
            Self::NoExpiry => "the token has no expiry",
            Self::Expired => "the token has expired",
            Self::NotYet => "the token is not valid yet",
            Self::Actor => {
                "the token names no actor: the claim of http.issuer_actor must be agent:NAME, human:NAME or a name of \
                 1..100 letters, digits, dots, underscores and dashes"
            }
            Self::NoGrant => {
                "the token grants nothing here: no word of its scope, scp or roles is a scope of Callboard or in \
                 http.issuer_grants"
            }
        }
    }

    /// Whether the same token may be accepted later. Such a refusal must not be cached.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::UnknownKey | Self::Unreachable | Self::NotYet)
    }
}

impl WordGrant {
    /// Reads `WORD=GRANT`. The word may hold a `=` itself; a grant never does.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            let scopes = Scope::ALL.iter().map(|scope| scope.as_str());
            let profiles = Profile::ALL.iter().map(|profile| profile.as_str());
            let known: Vec<&str> = scopes.chain(profiles).collect();
            format!("'{text}' is not WORD=GRANT; grants are {}", known.join(", "))
        };
        let (word, grant) = text.rsplit_once('=').ok_or_else(wrong)?;
        let (word, grant) = (word.trim(), grant.trim());
        let scope = Scope::parse(grant).map(Grant::Scope);
        let gives = scope.or_else(|| Profile::parse(grant).map(Grant::Profile));
        match gives.filter(|_| !word.is_empty()) {
            Some(gives) => Ok(Self { word: word.to_owned(), gives }),
            None => Err(wrong()),
        }
    }
}

impl IssuerTerms {
    /// Judges the claims of a token whose signature is the issuer's.
    pub fn judge(&self, claims: &Value, now: Timestamp) -> Result<Issued, IssuerFault> {
        if claims["iss"].as_str() != Some(self.issuer.as_str()) {
            return Err(IssuerFault::OtherIssuer);
        }
        let audiences = match &claims["aud"] {
            Value::Array(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        if !audiences.iter().any(|one| one.as_str() == Some(self.audience.as_str())) {
            return Err(IssuerFault::Audience);
        }
        let expires_at = moment(&claims["exp"]).ok_or(IssuerFault::NoExpiry)?;
        if now >= expires_at {
            return Err(IssuerFault::Expired);
        }
        if let Some(from) = claims.get("nbf") {
            let from = moment(from).ok_or(IssuerFault::Malformed)?;
            if from > now.plus_s(CLOCK_SKEW_S) {
                return Err(IssuerFault::NotYet);
            }
        }
        let actor = self.actor(claims).ok_or(IssuerFault::Actor)?;
        let rights = self.rights(claims).ok_or(IssuerFault::NoGrant)?;
        Ok(Issued { actor, rights, expires_at })
    }

    /// The actor by its claim. An issuer names people and agents; runners and the system are Callboard's own.
    fn actor(&self, claims: &Value) -> Option<Actor> {
        let name = claims[self.actor_claim.as_str()].as_str()?;
        let whole = name
            .parse()
            .ok()
            .filter(|actor: &Actor| matches!(actor.kind(), ActorKind::Human | ActorKind::Agent));
        whole.or_else(|| format!("agent:{name}").parse().ok())
    }

    /// The rights by the words of the token. A profile without any scope has the scopes of a token that names none.
    fn rights(&self, claims: &Value) -> Option<Rights> {
        let (mut scopes, mut profile) = (Vec::new(), None);
        for word in GRANT_CLAIMS.into_iter().flat_map(|claim| words(&claims[claim])) {
            let mut entries = self.grants.iter().filter(|grant| grant.word == word).peekable();
            if entries.peek().is_none() {
                scopes.extend(Scope::parse(word));
            }
            for entry in entries {
                match entry.gives {
                    Grant::Scope(scope) => scopes.push(scope),
                    Grant::Profile(given) => profile = profile.max(Some(given)),
                }
            }
        }
        scopes.sort_unstable();
        scopes.dedup();
        match (scopes.is_empty(), profile) {
            (true, None) => return None,
            (true, Some(_)) => scopes = Scope::USUAL.to_vec(),
            (false, _) => {}
        }
        let lane = match profile > Some(Lane::Kagan.ceiling()) {
            true => Lane::KaganAdmin,
            false => Lane::Kagan,
        };
        Some(Rights { scopes, lane, profile_wanted: profile, ..Rights::default() })
    }
}

/// The words of a claim: those of a string are separated by spaces. The items of an array are whole words, because roles
/// may have spaces in their names.
fn words(claim: &Value) -> Vec<&str> {
    match claim {
        Value::String(text) => text.split_whitespace().collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A NumericDate of RFC 7519: seconds since 1970, perhaps with a fraction.
fn moment(date: &Value) -> Option<Timestamp> {
    let whole = date.as_i64().map(|s| s.saturating_mul(1_000_000));
    // A float too large for a moment becomes the last one.
    whole.or_else(|| date.as_f64().map(|s| (s * 1e6) as i64)).map(Timestamp)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);

    fn terms(grants: &[&str]) -> IssuerTerms {
        IssuerTerms {
            issuer: "https://id.example".into(),
            audience: "callboard".into(),
            actor_claim: "sub".into(),
            grants: grants.iter().map(|text| WordGrant::parse(text).expect("a grant")).collect(),
        }
    }

    /// Claims that are accepted, with some of them replaced; `null` removes one.
    fn claims(changed: &Value) -> Value {
        let mut claims = json!({
            "iss": "https://id.example", "aud": "callboard", "sub": "ci-1", "exp": 1001, "scope": "tasks:read",
        });
        for (name, value) in changed.as_object().expect("an object") {
            match value.is_null() {
                true => drop(claims.as_object_mut().expect("an object").remove(name)),
                false => claims[name] = value.clone(),
            }
        }
        claims
    }

    #[test]
    fn each_claim_is_judged() {
        for (changed, expected) in [
            (json!({}), Ok("agent:ci-1")),
            (json!({"iss": "https://id.example/"}), Err(IssuerFault::OtherIssuer)),
            (json!({"iss": null}), Err(IssuerFault::OtherIssuer)),
            (json!({"iss": ["https://id.example"]}), Err(IssuerFault::OtherIssuer)),
            (json!({"aud": ["other", "callboard"]}), Ok("agent:ci-1")),
            (json!({"aud": "callboard2"}), Err(IssuerFault::Audience)),
            (json!({"aud": ["other"]}), Err(IssuerFault::Audience)),
            (json!({"aud": null}), Err(IssuerFault::Audience)),
            (json!({"exp": null}), Err(IssuerFault::NoExpiry)),
            (json!({"exp": "1001"}), Err(IssuerFault::NoExpiry)),
            (json!({"exp": 1000}), Err(IssuerFault::Expired)),
            (json!({"exp": -1}), Err(IssuerFault::Expired)),
            (json!({"exp": 1000.5}), Ok("agent:ci-1")),
            (json!({"exp": 1e300}), Ok("agent:ci-1")),
            (json!({"nbf": 1060}), Ok("agent:ci-1")),
            (json!({"nbf": 1061}), Err(IssuerFault::NotYet)),
            (json!({"nbf": "soon"}), Err(IssuerFault::Malformed)),
            (json!({"sub": "human:ana"}), Ok("human:ana")),
            (json!({"sub": "agent:ana"}), Ok("agent:ana")),
            (json!({"sub": "system:relay"}), Err(IssuerFault::Actor)),
            (json!({"sub": "runner:host"}), Err(IssuerFault::Actor)),
            (json!({"sub": "auth0|1"}), Err(IssuerFault::Actor)),
            (json!({"sub": ""}), Err(IssuerFault::Actor)),
            (json!({"sub": null}), Err(IssuerFault::Actor)),
            (json!({"sub": 7}), Err(IssuerFault::Actor)),
            (json!({"scope": "openid profile"}), Err(IssuerFault::NoGrant)),
            (json!({"scope": null}), Err(IssuerFault::NoGrant)),
        ] {
            let judged = terms(&[]).judge(&claims(&changed), NOW);
            let found = judged.as_ref().map(|issued| issued.actor.as_str()).map_err(|fault| *fault);
            assert_eq!(found, expected, "{changed}");
        }
        assert_eq!(terms(&[]).judge(&json!("text"), NOW), Err(IssuerFault::OtherIssuer));
        let by_client = IssuerTerms { actor_claim: "azp".into(), ..terms(&[]) };
        let judged = by_client.judge(&claims(&json!({"azp": "bot"})), NOW).expect("accepted");
        assert_eq!(
            (judged.actor.as_str(), judged.expires_at),
            ("agent:bot", Timestamp(1_001_000_000))
        );
    }

    /// The words of a token with the scopes, the profile that holds, and the lane.
    #[test]
    fn words_of_a_token_grant_scopes_and_profiles() {
        let grants = [
            "write=tasks:write",
            "write=tasks:read",
            "boss=maintainer",
            "look=viewer",
            "a=b=operator",
        ];
        let usual = "tasks:read tasks:write knowledge:read knowledge:write commands:run";
        for (changed, scopes, profile, lane) in [
            (json!({}), "tasks:read", "pair_worker", "kagan"),
            (json!({"scope": "write"}), "tasks:read tasks:write", "pair_worker", "kagan"),
            (
                json!({"scope": "tasks:write tasks:read tasks:write"}),
                "tasks:read tasks:write",
                "pair_worker",
                "kagan",
            ),
            (
                json!({"scope": null, "scp": ["write"]}),
                "tasks:read tasks:write",
                "pair_worker",
                "kagan",
            ),
            (
                json!({"scope": null, "scp": "openid knowledge:read"}),
                "knowledge:read",
                "pair_worker",
                "kagan",
            ),
            (json!({"roles": ["boss"]}), "tasks:read", "maintainer", "kagan_admin"),
            (json!({"scope": null, "roles": "boss look"}), usual, "maintainer", "kagan_admin"),
            (json!({"scope": null, "roles": ["look"]}), usual, "viewer", "kagan"),
            (json!({"roles": ["a=b"]}), "tasks:read", "operator", "kagan_admin"),
            // An item of an array is one word, and the name of a profile alone is no grant.
            (json!({"roles": ["not boss", "maintainer"]}), "tasks:read", "pair_worker", "kagan"),
        ] {
            let judged = terms(&grants).judge(&claims(&changed), NOW).expect("accepted");
            let held: Vec<&str> = judged.rights.scopes.iter().map(|scope| scope.as_str()).collect();
            assert_eq!(held.join(" "), scopes, "{changed}");
            assert_eq!(judged.rights.profile().as_str(), profile, "{changed}");
            assert_eq!(judged.rights.lane.as_str(), lane, "{changed}");
        }
        for wrong in ["", "write", "write=", "=tasks:read", "write=tasks", "write=Maintainer"] {
            let words = WordGrant::parse(wrong).expect_err("not a grant");
            assert!(words.contains("tasks:write") && words.contains("maintainer"), "{words}");
        }
    }
}
