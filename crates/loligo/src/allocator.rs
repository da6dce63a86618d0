//! The program's allocator. `.cargo/config.toml` has its settings: they become part of it when it is built.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    fn it_was_built_with_its_settings() {
        let mut me = Command::new(std::env::current_exe().expect("tests are files"));
        let said = me.arg("--list").env("_RJEM_MALLOC_CONF", "stats_print:true").output().expect("it starts");
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains("opt.lg_extent_max_active_fit: 10\n"), "{said}");
        assert!(said.contains("slab_sizes:4096-4096:4\"\n"), "{said}");
    }
}
