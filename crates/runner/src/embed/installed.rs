//! Models on this machine: folders with three files, checked when they are installed.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use callboard_domain::hex::hex;
use callboard_engine::store::knowledge::Calibration;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const FILES: [&str; 3] = ["model.safetensors", "tokenizer.json", "config.json"];
/// Written beside the files of a known model, with its name and the scale of its cosines.
const MANIFEST: &str = "callboard.json";

/// A model that is known to work, by its weights.
pub struct Known {
    pub name: &'static str,
    pub sha256: &'static str,
    floor: f32,
    span: f32,
}

pub const KNOWN: &[Known] = &[Known {
    name: "all-MiniLM-L6-v2",
    sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    floor: 0.10,
    span: 0.65,
}];

/// A folder that holds a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFolder {
    pub path: PathBuf,
    /// Tells vectors of this model from those of other models.
    pub id: String,
    pub calibration: Calibration,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    id: String,
    floor: f32,
    span: f32,
}

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
    #[error(
        "callboard does not know these model weights (SHA-256 {found}); \
         set knowledge.model to the folder to use them anyway"
    )]
    Unknown { found: String },
}

impl ModelFolder {
    /// Looks at a folder without reading its weights. The error names the missing file.
    pub fn find(path: &Path) -> Result<Self, String> {
        for file in FILES {
            if !path.join(file).is_file() {
                return Err(format!("{} has no {file}", path.display()));
            }
        }
        let manifest = fs::read(path.join(MANIFEST)).ok();
        let manifest = manifest.and_then(|text| serde_json::from_slice::<Manifest>(&text).ok());
        let name = path.file_name().map_or("model".into(), |name| name.to_string_lossy());
        Ok(match manifest {
            Some(Manifest { id, floor, span }) => {
                Self { path: path.into(), id, calibration: Calibration { floor, span } }
            }
            None => Self {
                path: path.into(),
                id: name.into_owned(),
                calibration: Calibration::default(),
            },
        })
    }

    /// The installed model, if there is one.
    pub fn installed(models: &Path) -> Option<Self> {
        KNOWN.iter().find_map(|known| Self::find(&models.join(known.name)).ok())
    }
}

/// Copies a known model's files below `models`, over existing ones.
pub fn install(from: &Path, models: &Path) -> Result<ModelFolder, InstallError> {
    let [weights, ..] = FILES;
    let found = sha256(&from.join(weights))?;
    let known = KNOWN.iter().find(|known| known.sha256 == found);
    let known = known.ok_or(InstallError::Unknown { found })?;
    let to = models.join(known.name);
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| InstallError::File { path, error }
    };
    fs::create_dir_all(&to).map_err(at(&to))?;
    // The weights come last: a folder without them is no model.
    for file in FILES.into_iter().rev() {
        let (source, part, place) =
            (from.join(file), to.join(format!("{file}.part")), to.join(file));
        fs::copy(&source, &part).map_err(at(&source))?;
        fs::rename(&part, &place).map_err(at(&place))?;
    }
    let manifest = Manifest {
        id: format!("{}-{}", known.name, &known.sha256[..8]),
        floor: known.floor,
        span: known.span,
    };
    let text = serde_json::to_string_pretty(&manifest).expect("a manifest is plain data");
    let place = to.join(MANIFEST);
    fs::write(&place, text + "\n").map_err(at(&place))?;
    ModelFolder::find(&to)
        .map_err(|words| InstallError::File { path: to, error: io::Error::other(words) })
}

fn sha256(path: &Path) -> Result<String, InstallError> {
    let at = |error| InstallError::File { path: path.to_owned(), error };
    let mut file = fs::File::open(path).map_err(at)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(at)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    Ok(hex(hash.finalize()))
}
