---@brief
---
--- https://github.com/preadmit/preadmit
---
--- preadmit shows what the admission policies of a cluster would refuse of a GitOps repository:
--- Helm charts, kustomizations, manifests, and what Argo CD and Flux deploy, without a cluster.
---
--- Policies and flags are read from `.preadmit/config.yaml`. More flags of `preadmit check` can be
--- added to `cmd`.
---
--- ```lua
--- vim.lsp.config('preadmit', {
---   cmd = { 'preadmit', 'lsp', '--pack', 'pod-security-baseline' },
--- })
--- ```

---@type vim.lsp.Config
return {
  cmd = { 'preadmit', 'lsp' },
  filetypes = { 'yaml', 'helm', 'yaml.helm-values' },
  root_markers = { '.git' },
}
