import { createApiReference } from './reference/standalone.esm.js'

createApiReference('#reference', {
  url: '/openapi.json',
  // Nothing is loaded from or sent to other hosts.
  withDefaultFonts: false,
  customCss: `:root {
    --scalar-font: -apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif;
    --scalar-font-code: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  }`,
  telemetry: false,
  proxyUrl: '',
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: 'never',
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  hiddenClients: {
    c: true,
    clojure: true,
    ocaml: true,
    objc: true,
    r: true,
    swift: true,
    powershell: true,
    dart: true,
  },
})
