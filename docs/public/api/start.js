import { createApiReference } from './reference/standalone.esm.js'

createApiReference('#reference', {
  url: '/openapi.json',
  // Nothing is loaded from or sent to other hosts.
  withDefaultFonts: false,
  customCss: `:root {
    --scalar-font: -apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif;
    --scalar-font-code: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  }
  /* The colours of the theme have too little contrast for small text. */
  .light-mode {
    --scalar-color-2: #5c5c5c;
    --scalar-color-3: #636363;
    --scalar-color-green: #00704a;
    --scalar-color-red: #c2150f;
    --scalar-color-yellow: #7a5c00;
    --scalar-color-blue: #0067b3;
    --scalar-color-orange: #a84300;
    --scalar-color-purple: #5203d1;
  }
  .dark-mode {
    --scalar-color-3: #9e9e9e;
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

// The reader leaves these buttons without a name, and adds them while one scrolls.
function nameCopyButtons() {
  for (const button of document.querySelectorAll('button.scalar-code-copy:not([aria-label])'))
    button.setAttribute('aria-label', 'Copy')
}
new MutationObserver(nameCopyButtons).observe(document.body, { childList: true, subtree: true })
