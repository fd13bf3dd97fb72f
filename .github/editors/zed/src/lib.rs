//! Starts `preadmit lsp`, the language server of preadmit, which must be in `PATH`.

use zed_extension_api::{self as zed, LanguageServerId, Result, Worktree};

struct Preadmit;

impl zed::Extension for Preadmit {
    fn new() -> Self {
        Self
    }

    fn language_server_command(
        &mut self,
        _: &LanguageServerId,
        worktree: &Worktree,
    ) -> Result<zed::Command> {
        let command = worktree.which("preadmit").ok_or_else(|| {
            "There is no preadmit in PATH. Install it: https://github.com/preadmit/preadmit#install"
                .to_string()
        })?;
        Ok(zed::Command {
            command,
            args: vec!["lsp".to_string()],
            env: worktree.shell_env(),
        })
    }
}

zed::register_extension!(Preadmit);
