//! The generated records as files.
use crate::error::DatagenError;
use crate::generator::Generator;
use crate::source::DatagenSource;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes the values of a bounded generator as `<dir>/<partition>.jsonl`, one a line, for the files connector. Creates the directory;
/// replaces files of these names. The keys are not written: a job takes them out of the value.
///
/// # Errors
/// When the generator has no end, a value has a line break, or a file cannot be written.
pub fn write_files(source: &DatagenSource, dir: impl AsRef<Path>) -> Result<(), DatagenError> {
    source.check()?;
    let config = source.config();
    let Some(records) = config.records_per_partition else {
        let (setting, must) = ("records_per_partition", "set, to write files");
        return Err(DatagenError::Setting {
            name: config.name.clone(),
            setting,
            must,
        });
    };
    let dir = dir.as_ref();
    fs::create_dir_all(dir).map_err(io_error(dir))?;
    let mut generator = Generator::new(config.seed, config.shape.clone());
    for partition in 0..config.partitions as i32 {
        write_partition(
            &mut generator,
            partition,
            records as i64,
            &dir.join(format!("{partition}.jsonl")),
        )?;
    }
    Ok(())
}

fn write_partition(generator: &mut Generator, partition: i32, records: i64, path: &Path) -> Result<(), DatagenError> {
    let file = File::create(path).map_err(io_error(path))?;
    let mut out = BufWriter::with_capacity(64 << 10, file);
    for offset in 0..records {
        generator.make(partition, offset);
        if generator.value.contains(&b'\n') {
            return Err(DatagenError::NotALine { partition, offset });
        }
        generator.value.push(b'\n');
        out.write_all(&generator.value).map_err(io_error(path))?;
    }
    out.flush().map_err(io_error(path))
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> DatagenError {
    move |source| DatagenError::Io {
        path: path.to_path_buf(),
        source,
    }
}
