//! The project's chores, as `cargo xtask VERB`.

fn main() -> anyhow::Result<()> {
    anyhow::bail!("usage: cargo xtask verify|fix|tidy|test")
}
