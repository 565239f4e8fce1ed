//! TLS to PostgreSQL, in libpq's terms: `sslmode` says how the server's certificate is checked, `sslrootcert` which
//! authorities may have signed it. Nothing here sees a password.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// `sslmode` of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Never encrypted.
    Disable,
    /// Encrypted when the server can; nothing is checked.
    Prefer,
    /// Always encrypted; checked only when the address names an authority.
    Require,
    /// The certificate must be signed by the authority.
    VerifyCa,
    /// As `VerifyCa`, and the certificate must be for the host of the address.
    VerifyFull,
}

impl Mode {
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return None,
        })
    }
}

/// The authorities that may have signed a server's certificate: `sslrootcert` of the address.
pub(crate) enum Roots<'a> {
    /// The address names none.
    Unnamed,
    /// The authorities that this machine trusts anyway.
    System,
    File(&'a Path),
}

/// The connector for this mode; the error says what is wrong with the address.
pub(crate) fn connector(mode: Mode, roots: Roots) -> Result<MakeRustlsConnect, String> {
    let trusted = match (mode, roots) {
        (Mode::Disable | Mode::Prefer | Mode::Require, Roots::Unnamed) => None,
        (Mode::Disable | Mode::Prefer, Roots::System | Roots::File(_)) => {
            let words = "sslrootcert checks nothing with this sslmode; add sslmode=verify-full";
            return Err(words.into());
        }
        // A certificate that this machine trusts is easy to get for some host, so the host must be checked too.
        (Mode::Require, Roots::System) | (Mode::VerifyCa, Roots::Unnamed | Roots::System) => {
            let words = "verify-ca and require need sslrootcert=PATH of the authority's \
                 certificate; with those this machine trusts use sslmode=verify-full";
            return Err(words.into());
        }
        (Mode::VerifyFull, Roots::Unnamed | Roots::System) => Some(of_this_machine()?),
        (Mode::Require | Mode::VerifyCa | Mode::VerifyFull, Roots::File(path)) => {
            Some(of_file(path)?)
        }
    };
    let provider = Arc::new(ring::default_provider());
    // The verifier of rustls always checks the host, so libpq's weaker modes need one of our own.
    let asked = Asked { trusted, host: mode == Mode::VerifyFull, provider: provider.clone() };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(asked))
        .with_no_client_auth();
    // `sslnegotiation=direct` requires it.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

#[derive(Debug)]
struct Trusted {
    authorities: RootCertStore,
    /// As they stand in the file: a server's own certificate may be among them.
    named: Vec<CertificateDer<'static>>,
}

/// Certificates of this machine that cannot be parsed are left out; old stores often hold a few.
fn of_this_machine() -> Result<Trusted, String> {
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if authorities.is_empty() {
        let words = "this machine has no trusted certificates; name one: sslrootcert=PATH";
        return Err(words.into());
    }
    Ok(Trusted { authorities, named: Vec::new() })
}

fn of_file(path: &Path) -> Result<Trusted, String> {
    let unreadable =
        |why: String| format!("the certificates in sslrootcert={} {why}", path.display());
    let named: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(format!("cannot be read: {error}")))?;
    let mut authorities = RootCertStore::empty();
    // A file that names an authority must name a usable one: an empty list would refuse every server without a reason.
    let (usable, _) = authorities.add_parsable_certificates(named.iter().cloned());
    if usable == 0 {
        return Err(unreadable("are none: it must be a PEM file".into()));
    }
    Ok(Trusted { authorities, named })
}

/// The checks of a server's certificate; without `trusted` there are none.
#[derive(Debug)]
struct Asked {
    trusted: Option<Trusted>,
    /// Whether the certificate must be for the host of the address.
    host: bool,
    /// The algorithms that signatures are checked with.
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Asked {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        // A self-signed certificate is its own authority, as in PostgreSQL's manual.
        if !trusted.named.contains(end_entity) {
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &trusted.authorities,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )?;
        }
        if self.host {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trusted {
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(_) => {
                let known = &self.provider.signature_verification_algorithms;
                verify_tls12_signature(message, certificate, signed, known)
            }
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trusted {
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(_) => {
                let known = &self.provider.signature_verification_algorithms;
                verify_tls13_signature(message, certificate, signed, known)
            }
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
