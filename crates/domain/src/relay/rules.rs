//! Which addresses, branch names and paths a spec may have. Each function says what is wrong.

use std::net::{IpAddr, Ipv6Addr};

use super::spec::SpecRules;

type Judged = Result<(), String>;

/// Judges the address of a repository. Git runs a program for some addresses (`ext::sh -c …`) and reads a leading
/// `-` as an option; only an address that is known to be neither passes.
pub(super) fn git_url(url: &str, rules: &SpecRules) -> Judged {
    let allowed = |scheme: &str| rules.git_schemes.iter().any(|known| known == scheme);
    if url.starts_with('-') {
        return Err("must not start with '-'".into());
    }
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("must not hold spaces or control characters".into());
    }
    let program = url.split_once("::").map(|(program, _)| program);
    if program.is_some_and(|program| !program.contains(['/', '['])) {
        return Err("must not name a transport program ('::')".into());
    }
    let (scheme, host) = match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            (scheme.to_ascii_lowercase(), host.rsplit('@').next().unwrap_or_default())
        }
        None => match url.split_once(':') {
            Some((host, path)) if host.contains('@') && !host.contains('/') && !path.is_empty() => {
                ("ssh".to_owned(), host.rsplit('@').next().unwrap_or_default())
            }
            _ => return Err(format!("must be an address such as {}", examples(rules))),
        },
    };
    if !allowed(&scheme) {
        let known = rules.git_schemes.join(", ");
        return Err(format!("scheme '{scheme}' is not allowed here; allowed are {known}"));
    }
    // ssh would read `-oProxyCommand=…` as an option.
    let names_a_host = !host.is_empty() && !host.starts_with('-');
    if scheme != "file" && !names_a_host {
        return Err("must name a host".into());
    }
    Ok(())
}

fn examples(rules: &SpecRules) -> String {
    let schemes = rules.git_schemes.iter().map(|scheme| format!("{scheme}://host/path"));
    let mut schemes: Vec<String> = schemes.collect();
    if rules.git_schemes.iter().any(|scheme| scheme == "ssh") {
        schemes.push("git@host:path".into());
    }
    schemes.join(" or ")
}

/// The rules of `git check-ref-format --branch`.
pub(super) fn branch(name: &str) -> Judged {
    let bad_char = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let bad = name.starts_with('-')
        || name.ends_with('.')
        || name == "@"
        || name.contains("..")
        || name.contains("@{")
        || name.contains(bad_char)
        || name.split('/').any(bad_part);
    if bad { Err("must be a valid branch name".into()) } else { Ok(()) }
}

/// A path inside the repository.
pub(super) fn inner_path(path: &str) -> Judged {
    if path.contains('\0') {
        return Err("must not hold a NUL".into());
    }
    if path.starts_with(['/', '\\']) || path.get(1..2) == Some(":") {
        return Err("must be relative to the repository".into());
    }
    if path.split(['/', '\\']).any(|part| part == "..") {
        return Err("must not hold '..'".into());
    }
    Ok(())
}

/// Judges the text of a webhook's address. The addresses behind its host name are judged at each delivery.
pub fn judge_webhook(url: &str, rules: &SpecRules) -> Judged {
    let host = ["https://", "http://"].into_iter().find_map(|scheme| {
        let start = url.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &url[scheme.len()..])
    });
    let Some(host) = host else { return Err("must be an http or https URL".into()) };
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(literal) => literal.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    if host.is_empty() || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("must be an http or https URL".into());
    }
    let private = match host.parse::<IpAddr>() {
        Ok(address) => !is_public_address(address),
        Err(_) => host.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
    };
    if private && !rules.webhook_allow_private {
        return Err("must not be a loopback, private or link-local address".into());
    }
    Ok(())
}

/// Whether a webhook may be delivered to an address: not this machine, not its own network, not the address where
/// clouds keep credentials.
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let shared = first == 100 && (64..128).contains(&second);
            let benchmark = first == 198 && (18..20).contains(&second);
            !(address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || address.is_broadcast()
                || address.is_multicast()
                || address.is_documentation()
                || first == 0
                || first >= 240
                || shared
                || benchmark)
        }
        IpAddr::V6(address) => match inner_v4(address) {
            Some(inner) => is_public_address(inner),
            None => {
                !(address.is_loopback()
                    || address.is_unspecified()
                    || address.is_multicast()
                    || address.is_unique_local()
                    || address.is_unicast_link_local())
            }
        },
    }
}

/// The IPv4 address that is written, or translated, as this IPv6 address.
fn inner_v4(address: Ipv6Addr) -> Option<IpAddr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let translated = [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0];
    if translated {
        let (high, low) = (u32::from(high), u32::from(low));
        return Some(IpAddr::V4((high << 16 | low).into()));
    }
    address.to_ipv4_mapped().map(IpAddr::V4)
}
