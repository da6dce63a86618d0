//! The command line.

fn main() -> anyhow::Result<()> {
    anyhow::bail!("nothing to run yet")
}
